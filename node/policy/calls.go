package policy

import "context"

// Typed calls of the engine. Each blocks until the engine answers. See Call for the errors.

// Load loads a model and gives it a fresh optimizer.
func (e *Engine) Load(ctx context.Context, p LoadParams) (LoadResult, error) {
	return call[LoadResult](ctx, e, "load", p)
}

// Generate samples completions.
func (e *Engine) Generate(ctx context.Context, p GenerateParams) (GenerateResult, error) {
	return call[GenerateResult](ctx, e, "generate", p)
}

// Update takes a policy-gradient step.
func (e *Engine) Update(ctx context.Context, p UpdateParams) (UpdateResult, error) {
	return call[UpdateResult](ctx, e, "update", p)
}

// Logprobs scores sequences.
func (e *Engine) Logprobs(ctx context.Context, p LogprobsParams) (LogprobsResult, error) {
	return call[LogprobsResult](ctx, e, "logprobs", p)
}

// Save writes a checkpoint or a Hugging Face directory. It can write a checkpoint in the background: see Saved.
func (e *Engine) Save(ctx context.Context, p SaveParams) (SaveResult, error) {
	return call[SaveResult](ctx, e, "save", p)
}

// Saved returns the result of the background save, or its error.
func (e *Engine) Saved(ctx context.Context, p SavedParams) (SaveResult, error) {
	return call[SaveResult](ctx, e, "saved", p)
}

// Restore reads a checkpoint.
func (e *Engine) Restore(ctx context.Context, p RestoreParams) (RestoreResult, error) {
	return call[RestoreResult](ctx, e, "restore", p)
}

// Configure changes memory settings of the loaded model.
func (e *Engine) Configure(ctx context.Context, p ConfigureParams) (Memory, error) {
	return call[Memory](ctx, e, "configure", p)
}

// Memory returns the memory use of the engine's process.
func (e *Engine) Memory(ctx context.Context) (Memory, error) {
	return call[Memory](ctx, e, "memory", nil)
}

// Trim frees cached memory of the device and the host.
func (e *Engine) Trim(ctx context.Context) (Memory, error) {
	return call[Memory](ctx, e, "trim", nil)
}

func call[R any](ctx context.Context, e *Engine, name string, params any) (R, error) {
	var result R
	err := e.Call(ctx, name, params, &result)
	return result, err
}
