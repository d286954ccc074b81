package configs

// Embedded is the Weights value of a model that is built into the program.
const Embedded = "embedded"

// Default returns the paper's controlled experiment (arXiv:2509.08721, section 5) in its baseline form, I / J = 8 /
// 0. What the paper leaves open comes from TRL's GRPO or from the guides. The correction of others' rollouts is the
// one that docs/RESULTS.md supports. Model is empty because the right default depends on the host.
func Default() Config {
	return Config{
		Seed:      42, // rl-swarm's
		Rounds:    2000,
		SwarmSize: 8,

		NumTrainSamples:    8,
		NumTransplantTrees: 0,
		NumGenerations:     8,

		Device:    "auto",
		Precision: "auto",
		Tasks:     Tasks{Set: "paper", SystemPrompt: "default"},

		// The paper specifies no sampling options. These are TRL's defaults: plain sampling from the policy.
		Temperature: 1,
		TopK:        0,
		TopP:        1,
		// The two sum to GPT-2's context.
		MaxPromptLength:     768,
		MaxCompletionLength: 256,

		// Adam "with default hyper-parameters (e.g. learning rate 0.001)". Models override the rate.
		LearningRate: 1e-3,
		AdamBeta1:    0.9,
		AdamBeta2:    0.999,
		AdamEpsilon:  1e-8,
		MaxGradNorm:  1, // TRL's

		// Clip-higher without KL, as in the paper.
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
		ExternalDivergence:      0.1, // between equal models of one swarm, 1 wrong completion in 100 is further off
		ExternalFilter:          FilterAuto,
		ExternalFilterThreshold: 6, // docs/RESULTS.md, "Poisoned rollouts"
		Split:                   SplitFixed,
		SplitAlpha:              0.1,  // rl-swarm's
		SplitEMA:                0.95, // rl-swarm's
		SplitEvery:              10,

		EvalEvery:       100,
		EvalQuestions:   54, // six for each of the paper's nine tasks
		EvalGenerations: 4,
		EvalDraws:       DrawsAuto,
		CheckpointEvery: 10,

		Share:       "auto",
		GPUsPerNode: 1,
		MaxRestarts: 5,
		OnAlarm:     AlarmWarn,
	}
}
