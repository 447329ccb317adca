"""Data sets that are fetched once and kept on this machine.

`catalogue` lists them, `fetching` fetches them, `images` and `tables` read upstream's files, and `store` keeps the
arrays. `tacit.parties.data.sets` serves them; nothing here needs torch.
"""
