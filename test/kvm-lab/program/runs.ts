/** Rows about runs of the product itself on `voidbox-vmm`: its command line, its stack, its worker. */
import assert from 'node:assert/strict';
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { countedOnce, counting } from '../../e2e/specs.ts';
import { Product, runProgram } from './product.ts';
import type { VmmRow } from './row.ts';
import type { KvmTask } from './task.ts';

let product: Product | null = null;

/** Returns the product with its stack, which the first row starts. */
async function open(task: KvmTask): Promise<Product> {
  if (product === null) {
    product = new Product(task);
    await product.start();
  }
  return product;
}

/** Ends what the rows started, and returns what is left of it. */
export async function closeProduct(): Promise<readonly string[]> {
  const opened = product;
  product = null;
  return (await opened?.end()) ?? [];
}

const onVmm = (spec: string): string => spec.replace('sandbox: {', 'sandbox: { mode: vmm,');

function writeSpec({ folder }: Product, name: string, text: string): string {
  const path = join(folder, `${name}.yaml`);
  writeFileSync(path, text);
  return path;
}

const FIVE = `api_version: v1
kind: workflow
name: five
sandbox: { mode: vmm, memory_mb: 192 }
workflow:
  steps:
    - { name: a, run: "echo one >> all" }
    - { name: b, depends_on: [a], run: "echo two >> all" }
    - { name: c, depends_on: [b], run: "echo three >> all" }
    - { name: d, depends_on: [c], run: "echo four >> all" }
    - { name: e, depends_on: [d], run: "cat all; echo five" }
`;

/** VMs of two modes in one run: `auto`, and `vmm` by its name. */
const MODES = `api_version: v1
kind: pipeline
name: modes
sandbox: { mode: auto, memory_mb: 192 }
pipeline:
  boxes:
    - { name: chosen, run: "echo chosen" }
    - { name: named, run: "echo named", sandbox: { mode: vmm } }
  stages:
    - { type: box, name: chosen }
    - { type: box, name: named }
`;
/** The VMM of `auto` on hardware KVM (ADR 165). */
const AUTO_TAKES = 'vmm';

const LOSSES = `api_version: v1
kind: pipeline
name: losses
sandbox: { mode: vmm, memory_mb: 192 }
pipeline:
  boxes:
    - { name: first, run: "echo first" }
    - { name: second, run: "echo begun; sleep 10; echo second" }
    - { name: third, run: "echo begun; sleep 10; echo third" }
  stages:
    - { type: box, name: first }
    - { type: box, name: second }
    - { type: box, name: third }
`;

/** A VM that leaves a file in its memory. */
const WARM = `api_version: v1
kind: workflow
name: warm
sandbox: { mode: vmm, memory_mb: 192, disk_mb: 64 }
workflow:
  steps:
    - { name: keep, run: "echo one > /dev/shm/kept" }
`;

const continues = (snapshot: string, run: string): string => `api_version: v1
kind: workflow
name: continues
sandbox: { mode: vmm, memory_mb: 192, disk_mb: 64, snapshot: ${snapshot} }
workflow:
  steps:
    - { name: keep, run: "${run}" }
`;

/** Counts how often each stage was started. */
function startsOf(of: Product, runId: string): Readonly<Record<string, number>> {
  const starts: Record<string, number> = {};
  for (const body of of.events(runId))
    if (body.type === 'stage-started') starts[body.stage] = (starts[body.stage] ?? 0) + 1;
  return starts;
}

async function finish(of: Product, runId: string): Promise<void> {
  const outcome = await of.until(`the end of the run ${runId}`, () => {
    for (const body of of.events(runId)) if (body.type === 'run-finished') return body.outcome;
    return null;
  });
  assert.equal(outcome.state, 'succeeded', JSON.stringify(outcome));
}

export const RUNS: readonly VmmRow[] = [
  {
    name: 'five commands run as one run',
    async run({ task }) {
      const the = await open(task);
      await the.must('run', writeSpec(the, 'five', FIVE), '--run-id', 'five');
      assert.equal(the.output('five', 'e'), 'one\ntwo\nthree\nfour\nfive\n');
      assert.deepEqual(startsOf(the, 'five'), { a: 1, b: 1, c: 1, d: 1, e: 1 });
    },
  },
  {
    name: 'an agent changes its workspace, and the changes are a patch',
    async run({ task }) {
      const the = await open(task);
      const repository = join(the.folder, 'calculator');
      cpSync(join(task.product!.examples, 'calculator'), repository, { recursive: true });
      const spec = join(repository, 'fix.yaml');
      writeFileSync(spec, readFileSync(spec, 'utf8').replace('\nsandbox:\n', '\nsandbox:\n  mode: vmm\n'));
      const author = ['-c', 'user.name=Voidbox', '-c', 'user.email=voidbox@localhost'];
      for (const words of [
        ['init', '--quiet'],
        ['add', '.'],
        ['commit', '--quiet', '-m', 'A calculator'],
      ]) {
        const { code, stderr } = await runProgram('git', [...author, ...words], repository);
        assert.equal(code, 0, stderr);
      }
      await the.must('run', spec, '--mock-agents', '--run-id', 'agent');
      assert.match(await the.must('apply', 'agent', '--patch'), /^\+.*\+/m);
    },
  },
  {
    name: 'a run continues with the memory of a prepared sandbox and of its difference',
    async run({ task }) {
      const the = await open(task);
      const create = ['snapshot', 'create'];
      await the.must(...create, writeSpec(the, 'warm', WARM), '--stage', 'keep', '--name', 'warm', '--full');
      const more = writeSpec(the, 'more', continues('warm', 'echo two >> /dev/shm/kept'));
      await the.must(...create, more, '--stage', 'keep', '--name', 'warmer', '--diff');
      assert.match(await the.must('snapshot', 'show', 'warmer'), /192 MiB, 1 vCPU, 2 of 8 links/);
      await the.must('snapshot', 'delete', 'warm');
      const spec = writeSpec(the, 'continues', continues('warmer', 'cat /dev/shm/kept'));
      await the.must('run', spec, '--run-id', 'continues');
      assert.equal(the.output('continues', 'keep'), 'one\ntwo\n');
    },
  },
  {
    name: 'a worker that is killed leaves its command running, and the next one continues it',
    async run({ task }) {
      const the = await open(task);
      const spec = onVmm(counting(60, 0.2, 192));
      await the.must('run', writeSpec(the, 'counting', spec), '--run-id', 'worker', '--detach');
      await the.until('a line of the command', () =>
        the.output('worker', 'count').includes('line 5\n') ? true : null,
      );
      process.kill(the.workerPid(), 'SIGKILL');
      await finish(the, 'worker');
      assert.equal(the.output('worker', 'count'), countedOnce(60));
      assert.deepEqual(startsOf(the, 'worker'), { count: 1 });
    },
  },
  {
    name: 'a keeper and a VMM that are killed cost one attempt each, and no finished stage runs again',
    async run({ task }) {
      const the = await open(task);
      await the.must('run', writeSpec(the, 'losses', LOSSES), '--run-id', 'losses', '--detach');
      for (const [stage, victim] of [
        ['second', 'keeper'],
        ['third', 'vmm'],
      ] as const) {
        await the.until(`output of ${stage}`, () => (the.output('losses', stage) === '' ? null : true));
        const vm = await the.until(`the VM of ${stage}`, () => the.vmOf(stage));
        process.kill(vm[victim], 'SIGKILL');
      }
      await finish(the, 'losses');
      assert.deepEqual(startsOf(the, 'losses'), { first: 1, second: 2, third: 2 });
      assert.equal(the.events('losses').filter(({ type }) => type === 'vm-lost').length, 2);
    },
  },
  {
    name: 'mode auto takes the VMM of its rule, and the run shows the choice',
    async run({ task }) {
      const the = await open(task);
      await the.must('run', writeSpec(the, 'modes', MODES), '--run-id', 'modes');
      const vms = the.events('modes').flatMap((body) => (body.type === 'vm-ready' ? [body] : []));
      assert.deepEqual(
        vms.map(({ scope, vmm, accelerator, chosenBy }) => [scope, vmm, accelerator, chosenBy]),
        [
          ['chosen', AUTO_TAKES, 'kvm', 'auto'],
          ['named', 'vmm', 'kvm', 'spec'],
        ],
      );
      const shown = await the.must('status', 'modes');
      assert.match(shown, new RegExp(`VMM ${AUTO_TAKES} by mode auto, accelerator kvm`));
      assert.match(shown, /VMM vmm by the spec, accelerator kvm/);
    },
  },
];
