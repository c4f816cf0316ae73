import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { readEnvironment } from '../../setup/environment.ts';
import { MemoryPlace, openMemoryStores } from '../../test/rig/runs/memory-stores.ts';
import { createTestMachine } from '../../test/rig/runs/test-machine.ts';
import { openServiceSessions, openSessions } from './open-sessions.ts';

let dir: string;

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'voidbox-open-sessions-'));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

function createMachine(variables: Readonly<Record<string, string>> = {}) {
  const env = readEnvironment({ VOIDBOX_STATE_DIR: dir, ...variables });
  return createTestMachine(openMemoryStores(new MemoryPlace()), { env });
}

const onProgress = (): void => undefined;

test('a service on another machine gets no folder of step machines', async () => {
  const machine = createMachine({ VOIDBOX_SERVER: 'unix:/nowhere/api.sock' });
  await expect(openSessions(machine, { skills: () => ['/skills'], onProgress })).rejects.toMatchObject({
    code: 'cli/usage',
    message: '--skills works only on the machine of the service',
  });
  expect((await openSessions(machine, { onProgress })).findPage('first')).toBeNull();
});

test('a process of the stack starts no stack: it reports a missing folder, and a missing server', async () => {
  await expect(openServiceSessions(createMachine())).rejects.toMatchObject({ code: 'skill/unknown' });
  mkdirSync(join(dir, 'skills'));
  writeFileSync(join(dir, 'skills.json'), JSON.stringify({ paths: [join(dir, 'skills')] }));
  await expect(openServiceSessions(createMachine())).rejects.toMatchObject({ code: 'cli/no-server' });
});
