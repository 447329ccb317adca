"""Data sets that are fetched once and kept on this machine.

`catalogue` lists them, `fetching` fetches them, one module for each kind of file reads upstream's files (`idx`,
`cifar`, `svhn`, `leaf`, `pictures`, `tables`, `reviews`), and `store` keeps the arrays. `tacit.parties.data.sets`
serves them; nothing here needs torch.
"""
