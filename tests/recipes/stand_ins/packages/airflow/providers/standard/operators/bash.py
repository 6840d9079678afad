tasks = []


class BashOperator:
    def __init__(self, **options):
        self.options = options
        tasks.append(self)
