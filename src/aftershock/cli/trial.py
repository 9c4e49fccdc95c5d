"""x"""
def trial()->None:
    """x"""
