/** The messages about stages that failed for a reason that only the guest knows. */
import { expect, test } from 'vitest';
import { useRig } from './shared-rig.ts';

const theRig = useRig();

const SPEC = `api_version: v1
kind: pipeline
name: failing
sandbox: { memory_mb: 192 }
pipeline:
  boxes:
    - { name: greedy, run: { program: sh, args: [-c, 'x=a; while :; do x=$x$x; done'] } }
    - name: pipe
      run: { program: sh, args: [-c, 'mkdir -p /workspace/output/deep; mkfifo /workspace/output/deep/pipe'] }
      outputs: [{ name: tables, guest: /workspace/output }]
    - { name: full, sandbox: { disk_mb: 64 }, run: { program: sh, args: [-c, 'cat /dev/zero > /workspace/zero'] } }
    - name: dark
      run: { program: sh, args: [-c, 'mkdir tree; echo x > tree/zero; echo y > np; chmod 000 tree/zero np tree'] }
      outputs: [{ name: tree, guest: /workspace/tree }]
      output_file: /workspace/np
    - name: foreign
      output_file: /workspace/leak
      run: { program: ln, args: [-s, /proc/1/environ, /workspace/leak] }
  stages:
    - { type: fan_out, boxes: [greedy, pipe, full, dark, foreign] }
`;

test('a stage without memory names `memory_mb`, one without room `disk_mb`, one with a bad output the entry', async () => {
  const rig = theRig();
  const run = await rig.cli('run', rig.spec('spec.yaml', SPEC), '--run-id', 'failing');
  expect(run.code, run.stderr).toBe(1);
  expect(run.stderr).toMatch(
    /stage greedy failed: was ended by signal 9 \(exit code 137\): the VM ran out of memory, .*`memory_mb` is 192, raise it/,
  );
  const status = JSON.parse((await rig.cli('status', 'failing', '--json')).stdout) as { stages: readonly unknown[] };
  expect(JSON.stringify(status)).toContain('"code":"stage/out-of-memory"');
  expect(run.stderr).toMatch(/stage full failed: .*the disk of the VM is full; `disk_mb` is 64, raise it/);
  expect(JSON.stringify(status)).toContain('"code":"stage/disk-full"');
  expect(status.stages).toContainEqual(expect.objectContaining({ id: 'dark', state: 'succeeded' }));
  expect(run.stderr).toMatch(/stage foreign failed: left its output file that is refused: .*: Permission denied/);
  expect(run.stderr).toMatch(/stage pipe failed: left an output tables that is refused: .*deep\/pipe: a Fifo/);
});

const AGENTS = `api_version: v1
kind: pipeline
name: greedy-agents
sandbox: { memory_mb: 192 }
pipeline:
  boxes:
    - name: talks
      prompt: Read all of it.
      env: { MOCK_AGENT_SCRIPT: '[{"say":"I look."},{"hold_mb":4096}]' }
    - name: codex
      prompt: Read all of it.
      llm: { provider: codex }
      env: { MOCK_AGENT_SCRIPT: '[{"hold_mb":4096}]' }
    - name: child
      prompt: Read all of it.
      env: { MOCK_AGENT_SCRIPT: '[{"run":"x=a; while :; do x=$x$x; done"},{"result":"too large for me"}]' }
  stages:
    - { type: fan_out, boxes: [talks, codex, child] }
`;

test('an agent without memory names `memory_mb` too; an agent that lost only a child process continues', async () => {
  const rig = theRig();
  const spec = rig.spec('spec.yaml', AGENTS);
  // The agent itself holds more memory than its VM has, so the kernel kills the agent.
  const run = await rig.cli('run', spec, '--mock-agents', '--run-id', 'agents', '--json');
  expect(run.code, run.stderr).toBe(1);
  const { stages } = JSON.parse(run.stdout) as { readonly stages: readonly object[] };
  const message = expect.stringMatching(/the VM ran out of memory, .*`memory_mb` is 192, raise it$/) as string;
  const lacking = { state: 'failed', failure: { code: 'stage/out-of-memory', message } };
  expect(stages).toMatchObject([
    { id: 'talks', ...lacking },
    { id: 'codex', ...lacking },
    { id: 'child', state: 'succeeded' },
  ]);
});
