package configs

// PaperValues returns the algorithm's keys with the paper's values (arXiv:2509.08721, sections 3 to 5). I, J, G, the
// model, its learning rate and what the paper doesn't specify are not included.
func PaperValues() map[string]any {
	return map[string]any{
		"external_sampling":     SamplingUniform,
		"zero_advantage_filter": true,
		"external_advantage":    AdvantageAll,
		"external_correction":   CorrectionNone,
		"external_filter":       FilterNone,
		"external_lag":          0,
		"split":                 SplitFixed,
		"epsilon":               0.2,
		"epsilon_high":          0.28,
		"beta":                  0.0,
		"num_iterations":        1,
		"scale_rewards":         "group",
	}
}
