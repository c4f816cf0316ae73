import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createLentVariables } from './lent-variables.ts';

let dir: string;
let secretsFile: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'voidbox-lent-'));
  secretsFile = join(dir, 'secrets.env');
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const environment = { A: 'of the environment', B: 'too', KEY: 'not allowed' };

test('a worker lends the allowed environment variables and the whole file, which takes precedence and may change', async () => {
  writeFileSync(secretsFile, 'B=filed\nC=filed', { mode: 0o600 });
  const lent = createLentVariables({ secretsFile, allowed: ['A', 'B'], environment, undecodable: [] });
  expect(await lent.read()).toEqual({ A: 'of the environment', B: 'filed', C: 'filed' });
  writeFileSync(secretsFile, 'C=another');
  expect(await lent.read()).toEqual({ A: 'of the environment', B: 'too', C: 'another' });
});

test('a worker lends no variables by default', async () => {
  expect(await createLentVariables({ secretsFile: null, allowed: [], environment, undecodable: [] }).read()).toEqual(
    {},
  );
});

test('a worker rejects a secrets file that others may read', async () => {
  writeFileSync(secretsFile, 'B=filed', { mode: 0o600 });
  const lent = createLentVariables({ secretsFile, allowed: [], environment, undecodable: [] });
  await lent.read();
  chmodSync(secretsFile, 0o644);
  await expect(lent.read()).rejects.toMatchObject({ code: 'host/secrets-file' });
});

test('an allowed variable that is not set is reported at the start', () => {
  expect(() => createLentVariables({ secretsFile: null, allowed: ['UNSET'], environment, undecodable: [] })).toThrow(
    'The variable UNSET is to be lent to runs, and is not set here',
  );
});

test('an allowed variable that is not UTF-8 is refused', () => {
  const given = { secretsFile: null, allowed: ['A'], environment: { A: 'p\uFFFD' }, undecodable: ['A'] };
  expect(() => createLentVariables(given)).toThrow(/The variable A .* is not UTF-8/);
});
