package configs

// Embedded is the Weights of a model that is part of the program.
const Embedded = "embedded"

// Default is the paper's controlled experiment (arXiv:2509.08721, section 5) in its baseline form, I / J = 8 / 0, with
// what the paper leaves open taken from TRL's GRPO or from the guides, and the correction of others' rollouts that
// docs/RESULTS.md supports. Model is empty: which one is right depends on the host.
func Default() Config {
	return Config{
		Seed:      42, // the predecessor's
		Rounds:    2000,
		SwarmSize: 8,

		NumTrainSamples:    8,
		NumTransplantTrees: 0,
		NumGenerations:     8,

		Device:    "auto",
		Precision: "auto",
		Tasks:     Tasks{Set: "paper", SystemPrompt: "default"},

		// The paper names no sampling options: plain sampling from the policy, TRL's defaults.
		Temperature: 1,
		TopK:        0,
		TopP:        1,
		// Together GPT-2's context.
		MaxPromptLength:     768,
		MaxCompletionLength: 256,

		// Adam "with default hyper-parameters (e.g. learning rate 0.001)"; models override the rate.
		LearningRate: 1e-3,
		AdamBeta1:    0.9,
		AdamBeta2:    0.999,
		AdamEpsilon:  1e-8,
		MaxGradNorm:  1, // TRL's

		// Clip-higher and no KL, the paper's.
		Epsilon:       0.2,
		EpsilonHigh:   0.28,
		Beta:          0,
		NumIterations: 1,
		ScaleRewards:  "group", // GRPO's division by the group's standard deviation
		LossType:      "bnpo",  // the mean over the batch's completion tokens

		GradientAccumulationSteps: 1,
		AutoBatchSize:             true,
		ClearCacheEveryNRounds:    10, // guide 0's
		CUDAGraphs:                true,

		Sync:             SyncBarrier,
		BarrierDeadline:  300,
		BarrierQuorum:    0.5,
		MaxStaleness:     4,
		MaxPeers:         64,
		ExternalSampling: SamplingAuto,

		ZeroAdvantageFilter:     true, // the paper's, section 4
		ExternalAdvantage:       AdvantageAll,
		ExternalCorrection:      CorrectionAuto,
		ExternalDivergence:      0.1, // of equal models of one swarm, one wrong completion in a hundred is further off
		ExternalFilter:          FilterAuto,
		ExternalFilterThreshold: 6, // docs/RESULTS.md, "Poisoned rollouts"
		Split:                   SplitFixed,
		SplitAlpha:              0.1,  // the predecessor's
		SplitEMA:                0.95, // the predecessor's
		SplitEvery:              10,

		EvalEvery:       100,
		EvalQuestions:   54, // six a task of the paper's nine
		EvalGenerations: 4,
		CheckpointEvery: 10,

		Share:       "auto",
		GPUsPerNode: 1,
		MaxRestarts: 5,
	}
}
