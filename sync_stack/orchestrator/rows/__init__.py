"""Reading and writing rows: nothing else of the sync touches the store.

Every change is one conditional write, every creation one unique insert (reference: sync-stack 0).
"""
