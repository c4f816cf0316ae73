import { expect, test } from 'vitest';
import { loadText } from '../load.ts';

const HEAD =
  'kind: workflow\nname: x\nworkflow:\n  steps:\n    - name: a\n      run: { program: "true" }\n      output_schema:\n';

test.each<[string, string, readonly [line: number, column: number]]>([
  ['a value that no keyword takes', 'type: object\nproperties:\n  ok: { type: bool }', [10, 23]],
  ['an item of a list', 'required: [a, 7]', [8, 23]],
  ['an unknown keyword', 'properties:\n  requird: { type: string }\n  list: { items: { requird: [a] } }', [10, 28]],
  ['a reference to nothing', "allOf: [{}, { $ref: '#/$defs/no' }]", [8, 23]],
  ['a name with a slash', "properties: { 'a/b~c': { minLength: -1 } }", [8, 45]],
  ['an invalid pattern: the schema', "pattern: '('", [8, 9]],
])('a mistake in a schema has its place: %s', async (_what, schema, [line, column]) => {
  const text = HEAD + schema.replace(/^/gm, '        ');
  const { diagnostics } = await loadText(text, 'x.yaml', { baseDir: '/' });
  expect(diagnostics).toMatchObject([{ code: 'spec/bad-value', line, column }]);
});
