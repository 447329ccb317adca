"""Data sets that are fetched once and kept on this machine.

`catalogue` names them, `fetching` gets them, one module for each kind of file reads what upstream publishes
(`idx`, `cifar`, `svhn`, `leaf`, `pictures`, `tables`, `reviews`), and `store` keeps the arrays.
`tacit.parties.data.sets` serves them; nothing here needs torch.
"""
