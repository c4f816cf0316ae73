/** The examples, each with answers that lead it to its end, and its final output. */
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { rolldown } from 'rolldown';
import { onTestFinished } from 'vitest';
import type { SkillDefinition } from '../../../domain/step-machine/definition.ts';
import contributorGuide from '../../../examples/skills/contributor-guide.ts';
import parallelReview from '../../../examples/skills/parallel-review.ts';
import releaseApproval from '../../../examples/skills/release-approval.ts';
import repositoryDoctor from '../../../examples/skills/repository-doctor.ts';
import { findPackageRoot } from '../../../setup/package-root.ts';
import type { Beginning, Driver, Shown } from './skill-drivers.ts';

/** By step: an answer, or a function that makes the answer from the prompt. */
export type Answers = Readonly<Record<string, unknown>>;

export interface ExampleRun {
  readonly what: string;
  readonly definition: SkillDefinition;
  readonly subskill?: string;
  /** Runs for each run again, because some examples change files. */
  prepare(): { readonly params?: unknown; readonly answers: Answers };
  /** The steps that are answered, in order. */
  readonly asked: readonly string[];
  readonly finalOutput: unknown;
}

const setUpAnswers = { tools: { tools: { cargo: '1.90' } }, build: { passed: true, lastLines: 'ok' } };

export const EXAMPLE_RUNS: readonly ExampleRun[] = [
  {
    what: 'repository-doctor repairs two files in two rounds',
    definition: repositoryDoctor,
    prepare() {
      const folder = mkdtempSync(join(tmpdir(), 'voidbox-doctor-'));
      onTestFinished(() => rmSync(folder, { recursive: true }));
      for (const file of ['README.md', 'LICENSE']) writeFileSync(join(folder, file), 'text\n');
      const treat = (prompt: string): unknown => {
        const file = /^- (\S+): /m.exec(prompt)?.[1] ?? '';
        writeFileSync(join(folder, file), 'text\n');
        return { file };
      };
      return { params: { folder }, answers: { treat } };
    },
    asked: ['treat', 'treat'],
    finalOutput: { healthy: true, repaired: ['CHANGELOG.md', '.gitignore'] },
  },
  {
    what: 'contributor-guide leads to a sub-skill',
    definition: contributorGuide,
    prepare: () => ({
      answers: {
        ask: { want: 'set-up', language: 'Rust' },
        'set-up/tools': setUpAnswers.tools,
        'set-up/build': setUpAnswers.build,
      },
    }),
    asked: ['ask', 'set-up/tools', 'set-up/build'],
    finalOutput: { ready: true, tools: { cargo: '1.90' } },
  },
  {
    what: 'contributor-guide begins with a sub-skill',
    definition: contributorGuide,
    subskill: 'set-up',
    prepare: () => ({
      params: { language: 'Rust' },
      answers: { 'set-up/tools': setUpAnswers.tools, 'set-up/build': setUpAnswers.build },
    }),
    asked: ['set-up/tools', 'set-up/build'],
    finalOutput: { ready: true, tools: { cargo: '1.90' } },
  },
  {
    what: 'contributor-guide shows a topic',
    definition: contributorGuide,
    prepare: () => ({ answers: { ask: { want: 'style' } } }),
    asked: ['ask'],
    finalOutput: { topic: 'style', content: 'Names are full words. A comment says why.' },
  },
  {
    what: 'parallel-review waits for all three',
    definition: parallelReview,
    prepare: () => ({
      params: { change: 'main~1' },
      answers: {
        read: { summary: 'Adds a cache' },
        correctness: { approved: true, remarks: [] },
        security: { approved: false, remarks: ['unbounded'] },
        clarity: { approved: true, remarks: ['a | b'] },
      },
    }),
    asked: ['read', 'correctness', 'security', 'clarity'],
    finalOutput: {
      approved: false,
      table: [
        '| by | approved | remarks |',
        '| --- | --- | --- |',
        '| correctness | true |  |',
        '| security | false | unbounded |',
        '| clarity | true | a \\| b |',
      ].join('\n'),
    },
  },
  {
    what: 'release-approval is approved by a person',
    definition: releaseApproval,
    prepare: () => ({
      params: { version: '2.0.0' },
      answers: { notes: { notes: 'Faster.', breaking: false }, approve: { approved: true, by: 'Ada' } },
    }),
    asked: ['notes', 'approve'],
    finalOutput: { outcome: 'released', version: '2.0.0', by: 'Ada' },
  },
];

export interface Driven {
  readonly asked: readonly string[];
  readonly finalOutput: unknown;
}

/** To its end, with the table's answers. */
export async function driveExample(driver: Driver, { definition, subskill, prepare }: ExampleRun): Promise<Driven> {
  const { answers, params } = prepare();
  const beginning: Beginning = {
    skill: definition.name,
    ...(params === undefined ? {} : { params }),
    ...(subskill === undefined ? {} : { subskill }),
  };
  const going = await driver.start(beginning);
  const asked: string[] = [];
  let now: Shown = going.first;
  while (now.kind === 'prompt') {
    const { step, prompt, turn } = now;
    asked.push(step!);
    const answer = answers[step!];
    if (answer === undefined) throw new Error(`no answer to step "${step}"`);
    now = await going.advance(
      step!,
      typeof answer === 'function' ? (answer as (prompt: string) => unknown)(prompt!) : answer,
      turn,
    );
  }
  if (now.kind !== 'done') throw new Error(`it has come to wait: ${JSON.stringify(now)}`);
  return { asked, finalOutput: now.finalOutput };
}

export interface ExampleScripts extends Disposable {
  readonly dir: string;
  /** A folder with `<name>/skill.ts` and the bundle `<name>/bin/run.mjs` of its command line. */
  readonly skillsDir: string;
  scriptOf(name: string): string;
}

/** The examples as their author would hand them out: an entry for workers, and a bundled script. */
export async function exampleScripts(): Promise<ExampleScripts> {
  const dir = mkdtempSync(join(tmpdir(), 'voidbox-examples-'));
  const skillsDir = join(dir, 'skills');
  const root = findPackageRoot();
  mkdirSync(join(dir, 'node_modules'));
  symlinkSync(root, join(dir, 'node_modules/voidbox'));
  const scriptOf = (name: string): string => join(skillsDir, name, 'bin/run.mjs');
  const names = new Set(EXAMPLE_RUNS.map(({ definition }) => definition.name));
  for (const name of names) {
    mkdirSync(join(skillsDir, name), { recursive: true });
    writeFileSync(
      join(skillsDir, name, 'skill.ts'),
      `export { default } from ${JSON.stringify(join(root, 'examples/skills', `${name}.ts`))};\n`,
    );
    const entry = join(skillsDir, name, 'main.ts');
    writeFileSync(
      entry,
      `import { main } from 'voidbox/skill-kit/cli';\nimport skill from './skill.ts';\nawait main(skill);\n`,
    );
    const made = await rolldown({ input: entry, platform: 'node', cwd: dir });
    await made.write({ file: scriptOf(name), format: 'esm', codeSplitting: false });
    await made.close();
  }
  return { dir, skillsDir, scriptOf, [Symbol.dispose]: () => rmSync(dir, { recursive: true, force: true }) };
}
