"""One attempt at a task: load the ref, plan its targets, write, verify, record.

(reference: sync-stack 4.4, 4.7, 4.8)
"""
