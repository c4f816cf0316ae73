/** Command lines of agents in VMs of the guest's own image, which has no C library. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { agentProgram } from '../activities/ports/agent-layers.ts';
import { CODEX } from '../setup/pieces/agent-clis.ts';
import { readEnvironment } from '../setup/environment.ts';
import { resolveHostPieces } from '../setup/resolve.ts';
import { limit, request, script, textOf } from '../test/conformance/sandbox/behaviour.ts';
import { AGENTS_LIMIT_MS, needAgents } from '../test/rig/vms/need-agents.ts';
import { createRealHost, type RealHost, SMALL_VM } from '../test/conformance/sandbox/real-host.ts';

let host: RealHost;
let folder: string;
beforeAll(async () => {
  const environment = readEnvironment();
  const pieces = await resolveHostPieces(environment, { install: true });
  await needAgents('the tests of command lines in VMs', ['codex'], environment);
  host = await createRealHost(pieces);
  folder = await mkdtemp(join(tmpdir(), 'voidbox-layers-'));
}, AGENTS_LIMIT_MS);
afterAll(async () => {
  const left = await host.dispose();
  await rm(folder, { recursive: true, force: true });
  if (left.length > 0) throw new Error(`VMs were left: ${left.join(', ')}`);
});

it(
  'codex runs as the guest’s user, beside the mounts of the plan, and nothing of it can be written',
  { timeout: 240_000 },
  async () => {
    const key = { runId: 'layers', scope: 'codex', instance: [], generation: 0 };
    const spec = {
      ...SMALL_VM,
      memoryMib: 512,
      layers: ['codex'],
      mounts: [{ hostPath: folder, guestPath: '/data', mode: 'ro' }],
    } as const;
    const sandbox = await host.backend.launch(key, spec, limit());
    const program = agentProgram('codex');
    expect(await textOf(sandbox, request(program, ['--version']))).toBe(`codex-cli ${CODEX.version}`);
    // The second call reads the file from the guest's page cache.
    expect(await textOf(sandbox, request(program, ['exec', '--help']))).toContain('--json');
    expect(await textOf(sandbox, script('ls /opt/agents; ls -d /data'))).toBe('codex\n/data');
    expect(await textOf(sandbox, script(`echo x 2>&1 > /opt/agents/codex/bin/x || echo refused`))).toContain('refused');
    expect(await textOf(sandbox, script(`touch /opt/agents/x 2>&1 || echo refused`))).toContain('refused');
    await sandbox.stop();
  },
);

it('a mount of the plan may not hide it', async () => {
  for (const guestPath of ['/opt', '/opt/agents/codex/bin']) {
    const key = { runId: 'layers', scope: 'hidden', instance: [], generation: 0 };
    const mounts = [{ hostPath: folder, guestPath, mode: 'ro' }] as const;
    await expect(host.backend.launch(key, { ...SMALL_VM, layers: ['codex'], mounts }, limit())).rejects.toMatchObject({
      code: 'admit/mount-refused',
      message: `scope hidden has the codex command line at /opt/agents/codex, and its mount at ${guestPath} overlaps it: mount it elsewhere`,
    });
  }
});
