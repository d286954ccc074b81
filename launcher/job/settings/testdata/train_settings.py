# nanoGPT-like settings
batch_size = 12  # micro-batch
block_size = 1024
gradient_accumulation_steps = 5 * 8
device = 'cuda'
compile = True
assert batch_size == 12
loader = make(num_workers=4, drop_last=False)
