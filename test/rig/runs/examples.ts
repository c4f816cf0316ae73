/**
 * Shared code for tests of the examples: it runs and checks an example, and has the data from which tests compute the
 * results again.
 */
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'vitest';
import type { Rig } from '../../e2e/rig.ts';

export const EXAMPLES = join(dirname(fileURLToPath(import.meta.url)), '..', '..', '..', 'examples');

export interface RunJson {
  readonly state: string;
  readonly outputText: string | null;
  readonly mocked: readonly string[];
  readonly stages: readonly {
    readonly id: string;
    readonly state: string;
    readonly isolation: string | null;
    readonly vmm: string | null;
    readonly accelerator: string | null;
  }[];
}

export interface Observation {
  readonly city: string;
  readonly date: string;
  readonly rainMm: number;
  readonly highC: string;
  readonly lowC: string;
}

/** Also when something is left, which fails. */
export async function endRig(rig: Rig): Promise<void> {
  try {
    await rig.assertNothingLeft();
  } finally {
    await rig[Symbol.asyncDispose]();
  }
}

export async function runExample(rig: Rig, file: string, ...args: readonly string[]): Promise<RunJson> {
  const result = await rig.cli('run', join(EXAMPLES, file), '--json', ...args);
  expect(result.code, `${result.stdout}\n${result.stderr}`).toBe(0);
  const run = JSON.parse(result.stdout) as RunJson;
  expect(run.state).toBe('succeeded');
  for (const stage of run.stages) {
    // A passed stage has no VM; the test of its example knows which stages pass.
    if (stage.state === 'passed') continue;
    // A mocked stage has no VM either.
    if (run.mocked.includes(stage.id)) continue;
    // KVM where the machine has it in hardware, emulation elsewhere, and never anything that is no VM.
    expect(stage).toMatchObject({
      state: 'succeeded',
      isolation: 'microvm',
      vmm: 'qemu',
      accelerator: expect.stringMatching(/^(kvm|tcg)$/),
    });
  }
  return run;
}

export function observations(): Observation[] {
  const [header, ...rows] = readFileSync(join(EXAMPLES, 'data/weather.csv'), 'utf8').trimEnd().split('\n');
  expect(header).toBe('location,date,precipitation,temp_max,temp_min,wind,weather');
  return rows.map((row) => {
    const [city = '', date = '', rain = '', highC = '', lowC = ''] = row.split(',');
    return { city, date, rainMm: Number(rain), highC, lowC };
  });
}

export function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

export function first<T>(values: readonly T[], order: (a: T, b: T) => number): T {
  const [best] = values.toSorted(order);
  if (best === undefined) throw new Error('there is no data');
  return best;
}
