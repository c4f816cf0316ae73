import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { openSessionVariables } from '../../store/open-session-stores.ts';
import { sweepVariables } from './variable-sweep.ts';

test('a file among the sessions keeps no values from being dropped', async () => {
  const stateDir = mkdtempSync(join(tmpdir(), 'voidbox-sweep-'));
  onTestFinished(() => rmSync(stateDir, { recursive: true }));
  for (const session of ['open', 'over']) {
    mkdirSync(join(stateDir, 'sessions', session), { recursive: true });
    writeFileSync(variablesOf(session), '{}');
  }
  writeFileSync(join(stateDir, 'sessions', 'notes'), 'of a person');
  const isOpen = (session: string): Promise<boolean> => Promise.resolve(session === 'open');
  await sweepVariables(
    { variables: openSessionVariables({ stateDir }), serverId: 's', isOpen, log: () => undefined },
    Date.now() + 120_000,
  );
  expect(['open', 'over'].map((session) => existsSync(variablesOf(session)))).toEqual([true, false]);

  function variablesOf(session: string): string {
    return join(stateDir, 'sessions', session, 'variables.json');
  }
});
