import { expect, it } from 'vitest';
import type { SkillDefinition, StepResult } from '../domain/step-machine/definition.ts';
import type { SessionResult } from '../domain/step-machine/result.ts';
import { endingSkill, generator } from '../test/rig/skills/random-skill.ts';
import { linesOf, runCommand, TemporaryFolder } from '../test/rig/skills/skill-command.ts';
import { advanceSession, createSession, startSession } from './drive/drive.ts';
import { MemorySessions } from './mcp/memory-sessions.ts';

interface Driver {
  start(): Promise<SessionResult>;
  answer(step: string, output: unknown): Promise<SessionResult>;
}

function inProcess(skill: SkillDefinition): Driver {
  const session = createSession(skill);
  return { start: () => startSession(session), answer: (step, output) => advanceSession(session, { step, output }) };
}

function overMcp(skill: SkillDefinition): Driver {
  const sessions = new MemorySessions(skill);
  let id = '';
  const resultOf = (reply: Awaited<ReturnType<MemorySessions['start']>>): SessionResult => {
    if (reply.kind === 'refused') throw new Error(reply.message);
    id = reply.session;
    return reply.result;
  };
  return {
    start: async () =>
      resultOf(await sessions.start({ handshake: { host: 'generic', toolsAvailable: [], isSubagent: false } })),
    answer: async (step, output) => resultOf(await sessions.advance(id, { step, output })),
  };
}

async function command(skill: SkillDefinition, argv: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await runCommand(skill, argv);
  if (code !== 0 || stderr !== '') throw new Error(`${argv.join(' ').slice(0, 200)}: ${stderr}`);
  return stdout;
}

function withHistory(skill: SkillDefinition): Driver {
  const history: StepResult[] = [];
  const told = (stdout: string): SessionResult => {
    const result = JSON.parse(stdout) as SessionResult;
    if (result.kind !== 'error')
      history.push(...(result.completed === undefined ? [] : [result.completed]), ...(result.autoAdvanced ?? []));
    return result;
  };
  return {
    start: async () => told(await command(skill, ['start'])),
    answer: async (step, output) =>
      told(
        await command(skill, [
          'advance',
          '--step',
          step,
          '--output',
          JSON.stringify(output),
          '--history',
          JSON.stringify(history),
        ]),
      ),
  };
}

function withSession(skill: SkillDefinition, dir: string): Driver {
  let [id, file] = ['', ''];
  const line = (number: number): SessionResult => linesOf(file)[number - 1] as unknown as SessionResult;
  return {
    async start() {
      const started = JSON.parse(await command(skill, ['start', '--session', 'new', '--session-dir', dir])) as {
        sessionId: string;
        file: string;
        line: number;
      };
      ({ sessionId: id, file } = started);
      return line(started.line);
    },
    answer: async (step, output) =>
      line(
        Number(
          await command(skill, [
            'advance',
            '--session',
            id,
            '--session-dir',
            dir,
            '--step',
            step,
            '--output',
            JSON.stringify(output),
          ]),
        ),
      ),
  };
}

/** Returns the result after each answer, and the final output. */
async function played(driver: Driver, seed: number): Promise<readonly unknown[]> {
  const random = generator(seed);
  const seen: unknown[] = [];
  let result = await driver.start();
  while (result.kind === 'prompt') {
    const steps = [result.step, ...(result.open ?? []).map(({ step }) => step)].toSorted();
    seen.push(steps);
    result = await driver.answer(steps[random(steps.length)]!, { v: seen.length });
  }
  return [...seen, result.kind === 'done' ? result.finalOutput : result];
}

it(
  'whatever a skill looks like, every transport offers the same steps and gives the same final output',
  { timeout: 120_000 },
  async () => {
    using folder = new TemporaryFolder();
    let [answers, joins] = [0, 0];
    for (let seed = 1; seed <= 80; seed++) {
      const skill = endingSkill(generator(seed), 2);
      const expected = await played(inProcess(skill), seed);
      answers += expected.length - 1;
      joins += expected.filter((steps) => Array.isArray(steps) && steps.length > 1).length;
      for (const driver of [overMcp(skill), withHistory(skill), withSession(skill, folder.path)])
        expect(await played(driver, seed), `seed ${seed}`).toEqual(expected);
    }
    // The comparison covers many answers of different kinds.
    expect([answers > 500, joins > 50]).toEqual([true, true]);
  },
);
