"""Pure mathematics and byte formulas: no messages, no asyncio."""
