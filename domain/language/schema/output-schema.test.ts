import { beforeAll, describe, expect, test } from 'vitest';
import type { JsonValue } from '../../plan/plan.ts';
import { judgeOutput, type SchemaEngine, findSchemaProblem } from './output-schema.ts';
import { loadText } from '../load.ts';
import { loadSchemaEngine } from './schema-engine.ts';

let engine: SchemaEngine;
beforeAll(async () => {
  engine = await loadSchemaEngine();
});

const OK: JsonValue = { type: 'object', required: ['ok'], properties: { ok: { type: 'boolean' } } };

test.each<[string, JsonValue, string]>([
  ['what fits', OK, '{"ok":true}'],
  ['draft 7', { $schema: 'http://json-schema.org/draft-07/schema#', definitions: {}, type: 'array' }, '[1]'],
  ['draft 2020-12', { $schema: 'https://json-schema.org/draft/2020-12/schema', prefixItems: [{ const: 1 }] }, '[1]'],
  ['a format, which refuses nothing', { type: 'string', format: 'email' }, '"x"'],
  ['a key that each object of JavaScript has', { properties: { constructor: { type: 'string' } } }, '{}'],
  ['a reference', { $defs: { a: { type: 'number' } }, $ref: '#/$defs/a' }, '7'],
])('%s', (_what, schema, text) => {
  expect(findSchemaProblem(engine, schema)).toBeNull();
  expect(judgeOutput(engine, schema, text)).toEqual({ fits: true });
});

test.each<[string, JsonValue, string, string]>([
  ['no JSON', OK, '<secret>', 'the output is not JSON: there is something else at line 1, column 1'],
  ['nothing', OK, '', 'the output is not JSON: it is empty'],
  ['another type', OK, '[]', 'the output must be object'],
  ['a missing member', OK, '{}', "the output must have required property 'ok'"],
  [
    'a missing member with the name of a property of all objects',
    { required: ['toString', '__proto__'] },
    '{"__proto__":1}',
    "the output must have required property 'toString'",
  ],
  ['a place', { items: { items: OK } }, '[[{"ok":1}]]', '/0/0/ok must be boolean'],
  [
    'a member too many',
    { properties: {}, additionalProperties: false },
    '{"x":1}',
    'the output must NOT have additional properties: "x"',
  ],
  ['a word', { enum: ['a', 'b'] }, '"c"', 'the output must be equal to one of the allowed values: ["a","b"]'],
  [
    'many places',
    { items: { type: 'string' } },
    '[1,2,3,4,5,6,7]',
    `${[0, 1, 2, 3, 4].map((at) => `/${at} must be string`).join('; ')}; and 2 more`,
  ],
  [
    "an output that is not JSON Schema's",
    { $ref: '#/$defs/a', $defs: { a: { items: { $ref: '#/$defs/a' } } } },
    `${'['.repeat(200_000)}${']'.repeat(200_000)}`,
    'the output cannot be read as JSON: its values are nested more than 200 deep',
  ],
])('an output with %s is reported', (_what, schema, text, problem) => {
  expect(judgeOutput(engine, schema, text)).toEqual({ problem });
});

test('the failure of a large output names the first place', () => {
  const many = JSON.stringify(Array.from({ length: 40_000 }, () => 1));
  expect(judgeOutput(engine, { items: { type: 'string' } }, many)).toEqual({ problem: '/0 must be string' });
});

const U64 = '18446744073709551615';

test.each<[string, JsonValue, string, string | null]>([
  ['a type', { type: 'integer' }, U64, null],
  ['a distant limit', { maximum: 1e19 }, '-9007199254740993', null],
  ['a limit that it exceeds', { maximum: 1e19 }, U64, 'the output must be <= 10000000000000000000'],
  ['a limit that it keeps', { maximum: 1e20, minimum: 1e18 }, U64, null],
  [
    'a limit that is a neighbour',
    { maximum: 9007199254740992 },
    '9007199254740993',
    'last digits decide whether it matches',
  ],
  [
    'a constant that is a neighbour',
    { const: 9007199254740992 },
    '9007199254740993',
    'has the number 9007199254740993',
  ],
  ['a member', { properties: { a: { const: -9007199254740992 } } }, '{"a":-9007199254740993}', 'last digits'],
  ['a size beyond doubles', { type: 'number' }, '9'.repeat(400), 'has the number 99999'],
  ['a fraction', { const: 1 }, '1.0', null],
])('a number without an exact value is judged by %s', (_what, schema, text, problem) => {
  const answer = judgeOutput(engine, schema, text);
  expect('problem' in answer ? answer.problem : '').toContain(problem ?? '');
  expect('fits' in answer).toBe(problem === null);
});

describe('an invalid schema', () => {
  test.each<[string, JsonValue, string]>([
    ['a slip in a keyword', { requird: ['ok'] }, 'strict mode: unknown keyword: "requird"'],
    [
      'a word that is no type',
      { type: 'text' },
      'schema is invalid: data/type must be equal to one of the allowed values',
    ],
    ['a reference that leads nowhere', { $ref: '#/$defs/a' }, "can't resolve reference #/$defs/a from id #"],
    ['one to another place', { $ref: 'http://127.0.0.1/x' }, "can't resolve reference http://127.0.0.1/x from id #"],
    ['an invalid pattern', { pattern: '(' }, 'Invalid regular expression: /(/u: Unterminated group'],
    [
      'a dialect that is not known',
      { $schema: 'http://json-schema.org/draft-04/schema#' },
      'its `$schema` is "http://json-schema.org/draft-04/schema#"',
    ],
    ['one whose answer would be a promise', { $async: true, type: 'object' }, '`$async` is not a keyword'],
    ['no mapping', true, 'it is not a mapping'],
  ])('%s', (_what, schema, problem) => {
    expect(findSchemaProblem(engine, schema)).toContain(problem);
    expect(judgeOutput(engine, schema, '1')).toEqual({ problem: expect.stringContaining(problem) as string });
  });

  test('is a diagnostic at the place of the schema', async () => {
    const text = (schema: string): string =>
      `kind: workflow\nname: x\nworkflow:\n  steps:\n    - name: a\n      run: { program: "true" }\n      output_schema: ${schema}\n`;
    const { plan, diagnostics } = await loadText(text('{ type: text }'), 'x.yaml', { baseDir: null });
    expect(plan).toBeNull();
    expect(diagnostics).toMatchObject([
      {
        code: 'spec/bad-value',
        line: 7,
        column: 30,
        message: expect.stringContaining('`output_schema` of step "a" is not valid: schema is invalid') as string,
      },
    ]);
    const large = JSON.stringify({ description: 'x'.repeat(65_536) });
    expect((await loadText(text(large), 'x.yaml', { baseDir: null })).diagnostics).toMatchObject([
      { code: 'spec/too-large' },
    ]);
    expect(
      (await loadText(text('{ type: object }'), 'x.yaml', { baseDir: null })).plan!.stages[0]!.outputSchema,
    ).toEqual({ type: 'object' });
  });
});

test('a schema for the key `__proto__` is refused, because Ajv ignores it', () => {
  const schema = { properties: JSON.parse('{"__proto__":{"type":"string"}}') as JsonValue };
  expect(findSchemaProblem(engine, schema)).toBe(
    'it has the key `__proto__`, which the validator ignores: use another key',
  );
});
