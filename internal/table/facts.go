package table

// Facts returns a table of names, values and notes, indented below a heading that the caller prints.
func Facts() *Table {
	t := New(Column{}, Column{}, Column{Wrap: true})
	t.Indent = 2
	return t
}
