"""Pure mathematics and byte formulas, without messages or asyncio."""
