package task

import "fmt"

// arcRules lists the 70 rules in the library's order, on which the draws depend.
func arcRules() []arcNamedRule {
	rules := make([]arcNamedRule, 0, 70)
	add := func(name string, rule arcRule) { rules = append(rules, arcNamedRule{name, rule}) }

	move := func(family, side string, move func(k int, colorful bool) arcRule) {
		for _, paint := range []string{"solid", "colorful"} {
			for k := 1; k <= 4; k++ {
				rule := move(k, paint == "colorful")
				if side == "left" {
					rule = mirrored(rule)
				}
				add(fmt.Sprintf("move_%dpix_%s%s_%s", k, paint, family, side), rule)
			}
		}
	}
	move("", "right", shifted)
	move("", "left", shifted)
	move("_wrapped", "right", wrapped)
	move("_wrapped", "left", wrapped)

	gravities := []arcNamedRule{
		{"gravity", fromRandomRow(9, gravity)},
		{"gravity_counting", fromRandomRow(9, gravityCounting)},
		{"gravity_antigravity", fromRandomRow(2, gravityAntigravity)},
		{"gravity_one_step", fromRandomRow(9, gravityOneStep)},
		{"gravity_weighted_colors", fromRandomRow(2, gravityWeightedColors)},
	}
	// The library's gravity_right packs to the left.
	for _, g := range gravities {
		add(g.name+"_right", g.rule)
	}
	for _, g := range gravities {
		add(g.name+"_left", mirrored(g.rule))
	}

	add("block_touch_dot", blockTouchDot(1, arcMaxSize))
	for k := 1; k <= 4; k++ {
		add(fmt.Sprintf("block_touch_dot_%dpix", k), blockTouchDot(2, k))
	}
	return append(rules, []arcNamedRule{
		{"block_scale_to_dot", blockScaleToDot},
		{"block_and_noise_remove", blockAndNoiseRemove},
		{"block_and_noise_remove_inside", blockAndNoiseRemoveInside},
		{"move_block_by_own_size", moveBlockByOwnSize},
		{"two_points_and_fill", twoPointsAndFill},
		{"two_points_and_fill_inv", inverted(twoPointsAndFill)},
		{"copy_block_to_dots", copyBlockToDots(false)},
		{"copy_block_to_dots_colors", copyBlockToDots(true)},
		{"repeat_pattern_full", repeatPatternFull},
		{"reflect_block_with_border_pixel", reflectBlockWithBorderPixel},
		{"reflect_block_random", reflectBlockRandom},
		{"reflect_block_around_dot", reflectBlockAroundDot},
		{"paint_biggest_block", paintBiggestBlock},
		{"recolor_blocks_by_size", recolorBlocksBySize},
		{"change_to_five", fromRandomRow(9, changeToFive)},
		{"recolor_blocks_from_palette", recolorBlocksFromPalette},
		{"color_left_half_blocks", colorLeftHalfBlocks},
		{"sort_blocks_by_size", sortBlocksBySize},
		{"sort_complete_sequence", sortCompleteSequence},
		{"duplicate_block_from_seeds", duplicateBlockFromSeeds},
		{"fill_from_pixel", fillFromPixel},
		{"fill_until_collision", fillUntilCollision},
		{"mark_size_two_blocks", markSizeTwoBlocks},
	}...)
}
