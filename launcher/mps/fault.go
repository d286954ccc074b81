package mps

// Fault is trouble of a GPU's MPS server that ends its clients.
type Fault struct {
	GPU       int             // index of the GPU
	Message   string          // one line for a person
	Recovered <-chan struct{} // closed when clients may be started again; nil: at once. It may wait until all of them are gone
	Fatal     bool            // MPS will not recover
}
