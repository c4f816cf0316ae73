/**
 * Compares the JSON Schema that editors read with the compiler's checks of a spec's shape: for the golden cases next to
 * this file, for the examples, and for the output of `voidbox init`.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ErrorObject } from 'ajv';
import { describe, expect, test } from 'vitest';
import { FIRST_SPEC } from '../../cli/init/first-spec.ts';
import type { SpecCode } from '../../domain/errors/spec-codes.ts';
import { checkExpressions } from '../../domain/language/expression/check.ts';
import { compileText } from '../../domain/language/load.ts';
import { parseSpec } from '../../domain/language/read/parse.ts';
import { Problems } from '../../domain/language/text/diagnostics.ts';
import { readSource } from '../../domain/language/text/source.ts';
import type { Position, TreeNode } from '../../domain/language/text/tree.ts';
import { compileEditorSchema } from '../rig/skills/editor-schema.ts';

const ROOT = join(import.meta.dirname, '../..');
const SCHEMA = JSON.parse(readFileSync(join(ROOT, 'docs/spec.schema.json'), 'utf8')) as Record<string, unknown>;

/** The mistakes that a schema sees. `sometimes`: a part of them, such as a path that is not absolute. */
const SEEN: Readonly<Record<SpecCode, 'always' | 'sometimes' | 'never'>> = {
  'spec/wrong-key': 'always',
  'spec/missing-key': 'always',
  'spec/wrong-type': 'always',
  // Not a zero byte.
  'spec/bad-value': 'sometimes',
  'spec/bad-name': 'always',
  'spec/unknown-key': 'always',
  // Not that a key has no effect at that point.
  'spec/unsupported': 'sometimes',
  // A spec that `run` will refuse has no mistake of shape.
  // More mounts in one list than a VM takes.
  'spec/too-large': 'sometimes',
  'spec/bad-path': 'sometimes',
  // In a path, a placeholder is no absolute path.
  'spec/bad-placeholder': 'sometimes',
  // The text is read before a schema sees it.
  'spec/syntax': 'never',
  'spec/definition': 'never',
  'spec/duplicate-key': 'never',
  // Rules about names, order and paths.
  'spec/duplicate-name': 'never',
  'spec/unknown-step': 'never',
  'spec/unknown-box': 'never',
  'spec/unknown-output': 'never',
  'spec/ambiguous-output': 'never',
  'spec/cycle': 'never',
  'spec/may-be-absent': 'never',
  'spec/undeclared-secret': 'never',
  'spec/unused-secret': 'never',
  'spec/output-needed': 'never',
  'spec/box-unused': 'never',
  'spec/box-used-twice': 'never',
  'spec/producer-after-consumer': 'never',
  'spec/path-conflict': 'never',
  // A file may have such a name.
  'spec/shell-in-program': 'never',
  'spec/unordered-writers': 'never',
  'spec/isolation': 'never',
  // Rules about the values that runs get.
  'spec/unknown-param': 'never',
  'spec/missing-param': 'never',
  'spec/bad-expression': 'never',
  // A rule about where values of an event may be.
  'spec/payload-code': 'never',
  'spec/undeclared-param': 'never',
  'spec/bad-part': 'never',
  'spec/part-unused': 'never',
  'spec/attempts-share-vm': 'never',
  'spec/little-memory': 'never',
};

/** Lines that only the schema marks. */
const MORE: Readonly<Record<string, readonly number[]>> = {
  // A required key is there under another name, and the compiler reports only that place.
  'keys-misplaced': [9],
  'keys-of-other-systems': [15],
  'newcomer-workflow': [9],
  // A key in the section of another kind.
  'wrong-section': [4],
};

const validate = compileEditorSchema(SCHEMA);

function read(text: string): TreeNode | null {
  return readSource(text, new Problems('x.yaml'));
}

function valueOf(node: TreeNode): unknown {
  if (node.kind === 'scalar') return node.value;
  if (node.kind === 'list') return node.items.map(valueOf);
  return Object.fromEntries([...node.entries].map(([key, { value }]) => [key, valueOf(value)]));
}

/** Returns the place of a schema error in the text. */
function placeOf(root: TreeNode, { instancePath, keyword, params, propertyName }: ErrorObject): Position {
  let node = root;
  let at = root.at;
  let keyAt = root.at;
  for (const part of instancePath.split('/').slice(1)) {
    const name = part.replaceAll('~1', '/').replaceAll('~0', '~');
    const entry = node.kind === 'map' ? node.entries.get(name) : undefined;
    node = entry?.value ?? (node.kind === 'list' ? node.items[Number(name)]! : node);
    at = node.at;
    keyAt = entry?.keyAt ?? at;
  }
  if (keyword === 'false schema') return keyAt;
  if (keyword === 'maxItems' && node.kind === 'list') return node.items[params['limit'] as number]!.at;
  // A mistake in a key is at the key; a missing key is at the mapping.
  const key = keyword === 'additionalProperties' ? (params['additionalProperty'] as string) : propertyName;
  return (key !== undefined && node.kind === 'map' ? node.entries.get(key)?.keyAt : undefined) ?? at;
}

const cases = readdirSync(import.meta.dirname, { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name)
  .sort();

describe('golden specs', () => {
  test.each(cases)('%s', (name) => {
    const folder = join(import.meta.dirname, name);
    const file = existsSync(join(folder, 'spec.json')) ? 'spec.json' : 'spec.yaml';
    const params = existsSync(join(folder, 'params.json')) ? (JSON.parse(readFileSync(join(folder, 'params.json'), 'utf8')) as Record<string, string>) : {};
    const text = readFileSync(join(folder, file), 'utf8');
    const root = read(text);
    if (root === null) return;
    const { diagnostics } = compileText(text, file, { baseDir: '/home/ada/sales', params, checkExpression: checkExpressions });
    const isAccepted = validate(valueOf(root));
    // `if` reports only that one of its branches is wrong, and the branch has an error of its own.
    const errors = (validate.errors ?? []).filter(({ keyword }) => keyword !== 'if');
    const lines = new Set(errors.map((error) => placeOf(root, error).line));
    expect(diagnostics.filter(({ code, line }) => SEEN[code as SpecCode] === 'always' && !lines.has(line))).toEqual([]);
    const isBeyondIt = diagnostics.every(({ code }) => SEEN[code as SpecCode] === 'never');
    expect(isBeyondIt && !isAccepted ? errors : []).toEqual([]);
    // Once the compiler knows the kind of spec, the schema marks only lines that have a diagnostic.
    if (parseSpec(text, file).spec === null) return;
    const told = new Set(diagnostics.map(({ line }) => line));
    expect([...lines].filter((line) => !told.has(line))).toEqual(MORE[name] ?? []);
  });
});

const examples = readdirSync(join(ROOT, 'examples')).filter((name) => name.endsWith('.yaml'));

test.each([...examples.map((name) => [name, readFileSync(join(ROOT, 'examples', name), 'utf8')] as const), ['what init writes', FIRST_SPEC] as const])(
  '%s has nothing that an editor marks',
  (_name, text) => {
    expect(validate(valueOf(read(text)!)), JSON.stringify(validate.errors)).toBe(true);
  },
);
