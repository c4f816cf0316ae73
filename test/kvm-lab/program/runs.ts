/** Rows about runs of the product itself on `voidbox-vmm`: its command line, its stack, its worker. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Product } from './product.ts';
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

/** Counts how often each stage was started. */
function startsOf(of: Product, runId: string): Readonly<Record<string, number>> {
  const starts: Record<string, number> = {};
  for (const body of of.events(runId))
    if (body.type === 'stage-started') starts[body.stage] = (starts[body.stage] ?? 0) + 1;
  return starts;
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
];
