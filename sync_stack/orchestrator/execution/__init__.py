"""One attempt at a task: read Git, plan, write, verify, record.

(reference: sync-stack 4.4, 4.7, 4.8)
"""
