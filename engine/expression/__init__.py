"""Functions of users as expressions: what each computes, in a form that Rust and Arrow run.

`lift` reads the bytecode of a function and gives an `Expression` or the reason why it cannot. An
expression has no effect but its result. So whoever runs it may drop a batch in the middle, and call
the function for that batch: nobody can tell, but by the time it takes.
"""
