import { writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { SkillDefinition, StepResult } from '../../domain/step-machine/definition.ts';
import { runCommand, TemporaryFolder } from '../../test/rig/skills/skill-command.ts';
import { skill, terminal, z } from '../index.bundled.ts';

type Entry = StepResult & { readonly checkpoint?: { readonly entries: number; readonly chars: number } };
type Written = (entries: readonly unknown[]) => string;

const LINES: Written = (entries) => entries.map((entry) => `${JSON.stringify(entry)}\n`).join('');
const CRLF: Written = (entries) => LINES(entries).replaceAll('\n', '\r\n');
const ARRAY: Written = (entries) => JSON.stringify(entries);
const SPACED: Written = (entries) => `${JSON.stringify(entries, null, 1)}\n`;

let saves = 0;
/** Says of its store whatever can be said of it. */
function counting(version = '1.0.0', date = false): SkillDefinition {
  return skill({
    name: 'counting',
    version,
    entry: 'add',
    params: z.object({ by: z.number() }),
    stores: { sum: z.object({ value: z.number() }) },
  })
    .step('add', {
      prompt: ({ store, attempts, params }) =>
        JSON.stringify([
          store.sum,
          attempts,
          params.by,
          store.steps.all('add').length,
          store.steps.history.at(-70)?.result ?? null,
          store.steps.ran('look'),
        ]),
      response: z.object({ value: z.number(), note: z.string().trim().optional() }),
      maxVisits: 300,
      save: ({ response, params, store }) => {
        saves++;
        return {
          sum: { value: (store.sum?.value ?? 0) + response.value * params.by },
          step: { got: response.value, ...(date ? { at: new Date(0) } : {}) },
        };
      },
      next: ({ response }) => (response.value % 10 === 0 ? 'look' : 'self'),
    })
    .step('look', { action: ({ response }) => ({ seen: Object.keys(response).length }), maxVisits: 300, next: 'add' })
    .step('end', { prompt: 'Bye.', next: terminal })
    .build() as SkillDefinition;
}

interface Printed {
  readonly prompt?: string;
  readonly completed: Entry;
  readonly autoAdvanced?: readonly Entry[];
}

interface Call {
  readonly definition?: SkillDefinition;
  readonly params?: string;
  readonly script?: string;
}

async function advance(
  history: string,
  value: number,
  { definition = counting(), params = '{"by":2}', script }: Call = {},
): Promise<Printed> {
  const argv = [
    'advance',
    '--params',
    params,
    '--step',
    'add',
    '--output',
    JSON.stringify({ value, note: ' x ' }),
    '--history',
    '-',
  ];
  const { code, stdout, stderr } = await runCommand(definition, argv, {
    stdin: history,
    ...(script === undefined ? {} : { script }),
  });
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  return JSON.parse(stdout) as Printed;
}

/** A client that appends what it is given. */
async function grown(steps: number, written: Written, call: Call = {}): Promise<Entry[]> {
  const history: Entry[] = [];
  for (let value = 1; value <= steps; value++) {
    const { completed, autoAdvanced = [] } = await advance(written(history), value, call);
    history.push(completed, ...autoAdvanced);
  }
  return history;
}

const bare = ({ checkpoint: _dropped, ...entry }: Entry): Entry => entry;
const made = (history: readonly Entry[]): number[] => history.flatMap(({ checkpoint }) => checkpoint?.entries ?? []);

async function savesOf<T>(work: () => Promise<T>): Promise<readonly [T, number]> {
  saves = 0;
  return [await work(), saves];
}

describe('a long history', () => {
  it.each([
    ['lines', LINES],
    ['lines of Windows', CRLF],
    ['an array', ARRAY],
    ['an array of many lines', SPACED],
  ])(
    'as %s gives with checkpoints what it gives without, and folds only what is behind the last',
    async (_name, written) => {
      const history = await grown(150, written);
      expect(made(history)).toEqual([64, 128]);
      const [fast, fewSaves] = await savesOf(() => advance(written(history), 7));
      const [whole, allSaves] = await savesOf(() => advance(written(history.map(bare)), 7));
      expect(fast.prompt).toBe(whole.prompt);
      expect(fast.prompt).toContain(`[{"value":${2 * ((150 * 151) / 2 + 7)}},151,2,151,`);
      expect(bare(fast.completed)).toEqual(bare(whole.completed));
      const behind = history.slice(128).filter(({ step }) => step === 'add');
      expect([fewSaves, allSaves]).toEqual([behind.length + 1, 151]);
    },
  );

  it('is folded again if it was changed, also before the checkpoint', async () => {
    const history = await grown(80, LINES);
    const changed = history.map((entry, at) => (at === 3 ? { ...entry, response: { value: 1_000 } } : entry));
    const [{ prompt }, count] = await savesOf(() => advance(LINES(changed), 1));
    expect(count).toBe(81);
    expect(prompt).toContain(`{"value":${2 * ((80 * 81) / 2 + 996 + 1)}}`);
  });

  it('continues from an earlier checkpoint when its client went back', async () => {
    const history = await grown(150, LINES);
    const [{ prompt }, count] = await savesOf(() => advance(LINES(history.slice(0, 100)), 1));
    expect(count).toBeLessThan(40);
    expect(prompt).toBe((await advance(LINES(history.slice(0, 100).map(bare)), 1)).prompt);
  });

  it('is folded again for other params, another version and other code', async () => {
    using folder = new TemporaryFolder();
    const script = folder.file('skill.mjs');
    writeFileSync(script, 'one');
    const history = LINES(await grown(70, LINES, { script }));
    expect((await savesOf(() => advance(history, 1, { script })))[1]).toBeLessThan(20);
    for (const call of [{ script, params: '{"by":3}' }, { script, definition: counting('2.0.0') }, {}]) {
      expect((await savesOf(() => advance(history, 1, call)))[1]).toBe(71);
    }
    writeFileSync(script, 'two');
    expect((await savesOf(() => advance(history, 1, { script })))[1]).toBe(71);
  });

  it('gets no checkpoint where JSON does not give back what folding gave', async () => {
    expect(made(await grown(70, LINES, { definition: counting('1.0.0', true) }))).toEqual([]);
  });

  it.each([
    ['gets a checkpoint of 15 KiB', 5_000, 64],
    ['gets no checkpoint of 18 KiB, although it has few characters', 6_000, undefined],
  ])('%s', async (_what, characters, entries) => {
    const config = { name: 'large', version: '1.0.0', entry: 'say', stores: { said: z.object({ text: z.string() }) } };
    const definition = skill(config)
      .step('say', {
        prompt: 'Say.',
        response: z.object({}),
        maxVisits: 100,
        save: () => ({ said: { text: '漢'.repeat(characters) } }),
        next: 'self',
      })
      .build() as SkillDefinition;
    const stdin = LINES(Array.from({ length: 64 }, () => ({ step: 'say', response: {}, result: {} })));
    const { stdout } = await runCommand(definition, ['advance', '--step', 'say', '--output', '{}', '--history', '-'], {
      stdin,
    });
    expect((JSON.parse(stdout) as Printed).completed.checkpoint?.entries).toBe(entries);
  });

  it('gets no checkpoint if it lacks the results of folding', async () => {
    const history = (await grown(63, LINES)).map(bare);
    const without = history.map(({ step, response }) => ({ step, response }));
    expect((await advance(LINES(history), 1)).completed.checkpoint).toMatchObject({ entries: 69 });
    expect((await advance(LINES(without), 1)).completed.checkpoint).toBeUndefined();
    expect(
      (await advance(LINES([...history, { step: 'add', response: { value: 4, note: ' y ' }, result: { got: 4 } }]), 1))
        .completed.checkpoint,
    ).toBeUndefined();
  });

  it('gets no checkpoint as an argument, which a model may have to write', async () => {
    const history = (await grown(70, LINES)).map(bare);
    const argv = [
      'advance',
      '--params',
      '{"by":2}',
      '--step',
      'add',
      '--output',
      '{"value":1}',
      '--history',
      ARRAY(history),
    ];
    const { stdout } = await runCommand(counting(), argv);
    expect((JSON.parse(stdout) as Printed).completed.checkpoint).toBeUndefined();
  });

  it.each([
    ['of another format', { format: 2 }],
    ['with another digest', { digest: '0'.repeat(64) }],
    ['with counts of the wrong type', { visits: { add: 'many' } }],
    ['with counts below one', { visits: { add: -5 } }],
    ['with no stores', { stores: null }],
    ['that reaches further than the history', { chars: 1e9 }],
  ])('does not believe a checkpoint %s', async (_what, change) => {
    const history = await grown(70, LINES);
    const at = history.findIndex(({ checkpoint }) => checkpoint !== undefined);
    const forged = history.map((entry, index) =>
      index === at ? { ...entry, checkpoint: { ...entry.checkpoint, ...change } } : entry,
    );
    const [{ prompt }, count] = await savesOf(() => advance(LINES(forged), 1));
    expect(count).toBe(71);
    expect(prompt).toContain(`{"value":${2 * ((70 * 71) / 2 + 1)}}`);
  });

  it('may speak of checkpoints itself', async () => {
    const history = await grown(70, LINES);
    const tail = Array.from({ length: 20 }, () => ({
      step: 'add',
      response: { value: 1, note: 'checkpoint' },
      result: { got: 1 },
    }));
    const [, count] = await savesOf(() => advance(LINES([...history, ...tail]), 1));
    expect(count).toBe(91);
    const [, fewer] = await savesOf(() => advance(LINES([...history, ...tail.slice(0, 10)]), 1));
    expect(fewer).toBeLessThan(30);
  });

  it('names the line that is no JSON, also behind a checkpoint', async () => {
    const history = LINES(await grown(70, LINES));
    const argv = ['advance', '--params', '{"by":2}', '--step', 'add', '--output', '{"value":1}', '--history', '-'];
    const { code, stderr } = await runCommand(counting(), argv, { stdin: `${history}{oops\n` });
    expect({ code, stderr }).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^error: --history \(standard input\), line 78 is not JSON/) as string,
    });
  });
});
