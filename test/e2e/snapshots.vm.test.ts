/**
 * Snapshots under runs, in a cache folder of their own: processes of the stack die while a snapshot is made or read, and
 * nothing of a user is in a snapshot or in a copy.
 */
import { randomBytes } from 'node:crypto';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterAll, beforeEach, describe, expect, test } from 'vitest';
import type { TarItem } from '../../tar/write.ts';
import { busyboxRoot, writeLayout } from '../rig/vms/oci-layout.ts';
import { OwnCache } from '../rig/vms/own-cache.ts';
import { leftoversIn, listSnapshots, namesIn, partialBytes, soon, vmmsBelow } from '../rig/vms/snapshot-folder.ts';
import { countedOnce, counting } from './specs.ts';
import type { Rig } from './rig.ts';
import { useRig } from './shared-rig.ts';

const MEMORY_MIB = 160;
const LINES = 10;

const cache = new OwnCache();
const dir = cache.snapshots;
afterAll(() => cache[Symbol.dispose]());

const theRig = useRig(cache.variables);

async function readyVms(rig: Rig, runId: string) {
  const events = await rig.events(runId);
  return events.flatMap(({ body }) => (body.type === 'vm-ready' ? [body] : []));
}

const STEPS = ['made', 'read'] as const;
const PROCESSES = ['worker', 'supervisor'] as const;

describe.each(PROCESSES)('the %s is killed', (process) => {
  test.each(STEPS)('while a snapshot is %s: the run loses nothing', async (step) => {
    const rig = theRig();
    const runId = `${process}-${step}`;
    if (step === 'made') rmSync(dir, { recursive: true, force: true });
    expect(listSnapshots(dir)).toHaveLength(step === 'made' ? 0 : 1);
    await rig.cli('up');
    const stack = await rig.liveStack();
    // The end of the server may cut this command off.
    const launched = rig
      .launch(rig.spec(`${runId}.yaml`, counting(LINES, 0.1, MEMORY_MIB)), runId)
      .catch(() => undefined);
    await soon(`a snapshot that is ${step}`, () =>
      step === 'made'
        ? (partialBytes(dir) ?? 0) > 0
        : rig.keepers().some(({ pid }) => vmmsBelow(pid, 'copies').length > 0),
    );
    rig.kill(process === 'worker' ? stack.workerPid : stack.supervisorPid);
    await launched;
    await rig.cli('up');
    expect((await rig.finish(runId)).outcome).toMatchObject({ state: 'succeeded' });
    expect(await rig.output(runId, 'count')).toBe(countedOnce(LINES));
    const [ready, ...others] = await readyVms(rig, runId);
    expect(others).toEqual([]);
    expect(ready).toMatchObject({ generation: 0 });
    expect(ready?.start ?? 'cold').toBe(step === 'made' ? 'cold' : 'snapshot');
    await expect.poll(() => listSnapshots(dir)).toHaveLength(1);
    expect(leftoversIn(dir)).toEqual([]);
  });
});

test('the keeper is killed while it saves a snapshot: its run gets another VM, and no half of a snapshot is used', async () => {
  const rig = theRig();
  rmSync(dir, { recursive: true, force: true });
  const spec = rig.spec('keeper.yaml', counting(LINES, 0.1, MEMORY_MIB));
  const launched = rig.launch(spec, 'keeper-made');
  await soon('a partial snapshot', () => (partialBytes(dir) ?? 0) > 0);
  const [keeper] = rig.keepers();
  rig.kill(keeper!.pid);
  expect(listSnapshots(dir)).toEqual([]);
  await launched;
  expect((await rig.finish('keeper-made')).outcome).toMatchObject({ state: 'succeeded' });
  expect(await rig.output('keeper-made', 'count')).toBe(countedOnce(LINES));
  await expect.poll(() => listSnapshots(dir)).toHaveLength(1);
  expect(leftoversIn(dir)).toEqual([]);
  await rig.launch(spec, 'keeper-after');
  expect((await rig.finish('keeper-after')).outcome).toMatchObject({ state: 'succeeded' });
  expect(await readyVms(rig, 'keeper-after')).toMatchObject([{ start: 'snapshot' }]);
});

describe('a user’s data', () => {
  beforeEach(() => rmSync(dir, { recursive: true, force: true }));

  test('is in no snapshot that its VM made, and in no later copy, however the spec brought it into the VM', async () => {
    const rig = theRig();
    const mark = `mark-${randomBytes(8).toString('hex')}`;
    const text = (path: string): TarItem => ({ kind: 'file', path, mode: 0o644, body: Buffer.from(`${mark}-layer\n`) });
    const script = `'${JSON.stringify([
      { run: 'cat /workspace/.claude/skills/style/SKILL.md' },
      { run: `echo ${mark}-agent > ~/made` },
      { result: 'done' },
    ])}'`;
    const first = rig.spec(
      'marks.yaml',
      `api_version: v1
kind: pipeline
name: marks
params: { word: ${mark}-param }
sandbox: { memory_mb: ${MEMORY_MIB}, env: { OF_SANDBOX: ${mark}-sandbox } }
pipeline:
  boxes:
    - name: told
      outputs: [{ name: files, guest: /workspace/files }]
      run: { program: sh, args: [-c, "cat /workspace/input.json; echo ${mark}-stdin; mkdir files; echo ${mark}-named > files/file"] }
    - name: planted
      secrets: [PLANTED_SECRET]
      env: { OF_BOX: ${mark}-box, OF_PARAM: "\${{ params.word }}" }
      inputs: [{ from: files, guest: /named }]
      sandbox:
        mounts:
          - { host: ./read, guest: /read, mode: ro }
          - { host: ./write, guest: /write, mode: rw }
      run:
        stdin_from: told
        program: sh
        args: [-c, "cat > /tmp/stdin; cat /read/file /write/file /named/file /tmp/stdin /workspace/input.json > /workspace/all; env >> /workspace/all; cp /workspace/all ~/all; cp /workspace/all /dev/shm/all; echo ${mark}-written > /write/made; cat /workspace/all"]
    - name: agent
      llm: { provider: claude }
      prompt: ${mark}-prompt
      skills: [{ name: style, content: ${mark}-skill }]
      env: { MOCK_AGENT_SCRIPT: ${script} }
    - name: layered
      sandbox: { image: ./image }
      run: { program: cat, args: [/etc/layer] }
  output_box: planted
`,
    );
    const folder = dirname(first);
    for (const name of ['read', 'write']) {
      mkdirSync(join(folder, name));
      writeFileSync(join(folder, name, 'file'), `${mark}-${name}\n`);
    }
    const root = await busyboxRoot(['sh', 'cat']);
    await writeLayout(join(folder, 'image'), { layers: [[...root, text('etc/layer')]] });
    const planted = await rig.startWith(
      { PLANTED_SECRET: `${mark}-secret` },
      'run',
      first,
      '--run-id',
      'marks',
      '--mock-agents',
      '--input',
      JSON.stringify({ input: `${mark}-input` }),
    ).done;
    expect(planted.code, planted.stderr).toBe(0);
    const seen = await rig.output('marks', 'planted');
    for (const name of ['read', 'write', 'stdin', 'input', 'sandbox', 'box', 'param', 'named'])
      expect(seen).toContain(`${mark}-${name}`);
    expect(await rig.output('marks', 'layered')).toContain(`${mark}-layer`);

    const keys = listSnapshots(dir);
    // Without mounts, with mounts, and with the disk of the image.
    expect(keys.length).toBeGreaterThanOrEqual(3);
    const held = keys.map((key) => {
      const files = namesIn(join(dir, key))
        .filter((name) => name !== 'holders')
        .map((name) => readFileSync(join(dir, key, name)));
      // A search that does not find this would find nothing.
      const isGuest = files.some((bytes) => bytes.includes('voidbox.wait=1'));
      return { isGuest, hasMark: files.some((bytes) => bytes.includes(mark)) };
    });
    expect(held).toEqual(keys.map(() => ({ isGuest: true, hasMark: false })));

    const [half, rest] = [mark.slice(0, 9), mark.slice(9)];
    const second = rig.spec(
      'search.yaml',
      `api_version: v1
kind: pipeline
name: search
sandbox: { memory_mb: ${MEMORY_MIB} }
pipeline:
  boxes:
    - name: search
      run:
        program: sh
        args:
          - -c
          - |
            a=${half}; b=${rest}
            echo $a$b > /workspace/found
            grep -rsl "$a$b" /workspace /home /tmp /root /run /var /etc /mnt /dev/shm; cat /proc/[0-9]*/environ 2>/dev/null | grep -c "$a$b"
            true
`,
    );
    const searched = await rig.cli('run', second, '--run-id', 'search');
    expect(searched.code, searched.stderr).toBe(0);
    expect((await readyVms(rig, 'search'))[0]).toMatchObject({ start: 'snapshot' });
    expect(searched.stdout).toBe('/workspace/found\n0\n');
  });
});
