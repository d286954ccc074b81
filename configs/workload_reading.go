package configs

// WorkloadReading is what a training's files have for one value of a Workload.
type WorkloadReading struct {
	Stage   string // the stage whose value it is; "" for the Workload's own
	Name    string // of the value
	File    string // of the first place with a value, from the training's folder; "" where no place has one
	Line    int    // in File, from 1
	Text    string // the value as it stands there, without quotes; of places that differ the largest
	Usable  bool   // Text can be counted with
	Problem string // why the files don't say what the value is: missing, not a number, or places that differ; "" where they do
}
