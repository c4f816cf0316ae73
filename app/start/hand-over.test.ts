import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { HostVariables } from '../../activities/ports/host-variables.ts';
import { openStores } from '../../store/open-stores.ts';
import { RunExistsError, UnknownStartError } from '../../client/runs/runs.ts';
import { passVariables } from './hand-over.ts';

const TOKEN = { variables: { TOKEN: 'x' }, startKey: 'key' };

let stateDir: string;
let variables: HostVariables;
beforeEach(async () => {
  stateDir = mkdtempSync(join(tmpdir(), 'voidbox-hand-over-'));
  ({ hostVariables: variables } = await openStores({ stateDir }));
});
afterEach(() => rmSync(stateDir, { recursive: true, force: true }));

it('has the variables in place when the run starts', async () => {
  let seen: unknown = null;
  await passVariables(variables, 'a-run', TOKEN, async () => {
    seen = await variables.get('a-run');
  });
  expect(seen).toEqual({ TOKEN: 'x' });
  expect(await variables.read('a-run')).toEqual(TOKEN);
});

it('takes them back when the run was not started', async () => {
  await expect(passVariables(variables, 'a-run', TOKEN, () => Promise.reject(new Error('no server')))).rejects.toThrow(
    'no server',
  );
  expect(await variables.get('a-run')).toEqual({});
});

it('takes them back when another run has the id, which must not read them', async () => {
  await expect(
    passVariables(variables, 'a-run', TOKEN, () => Promise.reject(new RunExistsError('a-run'))),
  ).rejects.toThrow(RunExistsError);
  expect(await variables.get('a-run')).toEqual({});
});

it('leaves those of a run that may have started', async () => {
  const error = new UnknownStartError('a-run', new Error('no server'));
  await expect(passVariables(variables, 'a-run', TOKEN, () => Promise.reject(error))).rejects.toBe(error);
  expect(await variables.get('a-run')).toEqual({ TOKEN: 'x' });
});

it('writes nothing if there is nothing to hand over', async () => {
  await passVariables(variables, 'a-run', { variables: {}, startKey: null }, () => Promise.resolve());
  expect(existsSync(join(stateDir, 'runs'))).toBe(false);
});
