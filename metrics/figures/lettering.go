package figures

import (
	"fmt"
	"html"
	"regexp"
	"strconv"

	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot/vg"
)

// written matches a line of text as written by vgsvg: weight, size and the text itself.
var written = regexp.MustCompile(`(<text [^>]*?)(\s+style="font-family:)Liberation Sans(;[^"]*?font-weight:(\w+);[^"]*?font-size:([\d.]+)px[^"]*">)([^<]*)</text>`)

// lettered fixes the width of text to the width that the layout used, for any font of the viewer. Arial and Helvetica
// have the same widths; other fonts are compressed or stretched.
func lettered(svg []byte) []byte {
	return written.ReplaceAllFunc(svg, func(line []byte) []byte {
		m := written.FindSubmatch(line)
		size, err := strconv.ParseFloat(string(m[5]), 64)
		if err != nil {
			return line
		}
		style := textStyle(vg.Length(size), ink)
		if string(m[4]) == "bold" {
			style.Font.Weight = xfont.WeightBold
		}
		length := style.Width(html.UnescapeString(string(m[6]))).Points()
		return fmt.Appendf(nil, `%s textLength="%.5g" lengthAdjust="spacingAndGlyphs"%sLiberation Sans,Arial,Helvetica,sans-serif%s%s</text>`,
			m[1], length, m[2], m[3], m[6])
	})
}
