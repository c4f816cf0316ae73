/**
 * Each folder is a spec and its result: `plan.json`, with `triggers.json` and `notify.json` if it has any, or `diagnostics.txt`, or both when there are only warnings.
 * `UPDATE=1 npx vitest run test/spec` writes the results again; the diff is the review.
 * Files that a case uses are next to its spec.
 */
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { Diagnostic } from '../../domain/errors/diagnostic.ts';
import { SPEC_CODES } from '../../domain/errors/spec-codes.ts';
import { toWire } from '../../domain/plan/wire.ts';
import { checkExpressions } from '../../domain/language/expression/check.ts';
import { compileText } from '../../domain/language/load.ts';
import { checkPlan } from '../../domain/language/check-plan.ts';
import { readStepMachine } from '../../sdk/read-skill.ts';

const FOLDER = import.meta.dirname;
const BASE = '/home/ada/sales';
const CASES = readdirSync(FOLDER, { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name)
  .sort();
const UPDATE = process.env['UPDATE'] === '1';
const REFUSED_CODES = new Set<string>();

describe('golden specs', () => {
  test.each(CASES)('%s', (name) => {
    const file = existsSync(join(FOLDER, name, 'spec.json')) ? 'spec.json' : 'spec.yaml';
    const text = readFileSync(join(FOLDER, name, file), 'utf8');
    const params = existsSync(join(FOLDER, name, 'params.json'))
      ? (JSON.parse(readFileSync(join(FOLDER, name, 'params.json'), 'utf8')) as Record<string, string>)
      : {};
    const { plan, triggers, notify, diagnostics, parts } = compileText(text, file, {
      baseDir: BASE,
      params,
      checkExpression: checkExpressions,
      readStepMachine: (path) => {
        const beside = join(FOLDER, name, relative(BASE, path));
        const found = readStepMachine(beside);
        return 'problem' in found ? { problem: found.problem.replaceAll(beside, path) } : found;
      },
      readSpec: (path) => {
        const beside = join(FOLDER, name, relative(BASE, path));
        return existsSync(beside) ? { text: readFileSync(beside, 'utf8') } : { problem: 'there is no such file' };
      },
    });
    for (const { code } of diagnostics) REFUSED_CODES.add(code);
    expect(plan === null).toBe(diagnostics.some(({ severity }) => severity === 'error'));
    // With its defaults, and as it travels.
    for (const sent of plan === null ? [] : [plan, toWire(plan)]) expect(checkPlan(JSON.parse(JSON.stringify(sent)))).toEqual({ plan });
    golden(name, 'plan.json', plan === null ? null : `${JSON.stringify(plan, null, 2)}\n`);
    golden(name, 'triggers.json', triggers.length === 0 ? null : `${JSON.stringify(triggers, null, 2)}\n`);
    golden(name, 'notify.json', notify.receivers.length === 0 ? null : `${JSON.stringify(notify, null, 2)}\n`);
    golden(name, 'diagnostics.txt', diagnostics.length === 0 ? null : `${diagnostics.map((each) => render(each, parts.get(each.file) ?? text)).join('\n\n')}\n`);
  });

  test('there is a case for every code', () => {
    // Sizes beyond files that people read are tried in domain/language/limits.test.ts.
    // Definitions in TypeScript are tried in test/definitions/.
    expect(Object.keys(SPEC_CODES).filter((code) => !REFUSED_CODES.has(code))).toEqual(['spec/definition']);
  });
});

function golden(name: string, file: string, actual: string | null): void {
  const path = join(FOLDER, name, file);
  if (UPDATE && actual === null) rmSync(path, { force: true });
  if (UPDATE && actual !== null) writeFileSync(path, actual);
  expect(actual, `${name}/${file}; UPDATE=1 writes it`).toBe(existsSync(path) ? readFileSync(path, 'utf8') : null);
}

/** With the line and a caret, so that a wrong place is seen in review. */
function render({ file, line, column, severity, code, message, remedy }: Diagnostic, text: string): string {
  const source = text.split('\n')[line - 1] ?? '';
  return `${file}:${line}:${column} ${severity} ${code}: ${message}\n  ${remedy}\n  | ${source}\n  | ${' '.repeat(column - 1)}^`;
}
