import { expect, it } from 'vitest';
import { AGENT_DEFAULTS, SANDBOX_DEFAULTS, STAGE_DEFAULTS } from '../../domain/plan/defaults.ts';
import type { AgentSkill, Plan } from '../../domain/plan/plan.ts';
import {
  describeRemote,
  type FetchAgentSkill,
  REMOTE_SKILL_LIMITS,
  AgentSkillUnavailable,
} from '../ports/remote-skills.ts';
import { createFetchEvents, withRemoteAgentSkills } from './remote-skills.ts';

const REMOTE: AgentSkill = { kind: 'remote', repository: 'obra/superpowers', skill: 'brainstorming' };
const ROOT: AgentSkill = { kind: 'remote', repository: 'obra/superpowers', skill: null };

function planOf(skills: readonly AgentSkill[], isPlayed = false): Plan {
  const played = isPlayed ? { played: true as const } : {};
  const stages = ['one', 'two'].map((id) => ({
    ...STAGE_DEFAULTS,
    id,
    scope: 'vm',
    work: { ...AGENT_DEFAULTS, kind: 'agent' as const, prompt: 'x', llm: null, skills, ...played },
  }));
  return {
    version: 1,
    name: 'x',
    kind: 'workflow',
    stages,
    scopes: [{ id: 'vm', stages: ['one', 'two'], sandbox: SANDBOX_DEFAULTS }],
    output: { kind: 'stage', stage: 'two' },
    maxParallel: 1,
    hostVariables: [],
  };
}

function counting(answer: Uint8Array | string = 'Think first.'): {
  readonly fetch: FetchAgentSkill;
  readonly asked: string[];
} {
  const asked: string[] = [];
  return {
    asked,
    fetch: (source) => {
      asked.push(describeRemote(source));
      return Promise.resolve(Buffer.from(answer));
    },
  };
}

it('each skill is fetched once for a run, and the plan has its text and the log its hash', async () => {
  const { fetch, asked } = counting();
  const { plan, skills } = await withRemoteAgentSkills(fetch, planOf([REMOTE, ROOT]));
  expect(asked).toEqual(['remote:obra/superpowers/brainstorming', 'remote:obra/superpowers']);
  for (const { work } of plan.stages)
    expect(work).toMatchObject({
      skills: [
        { kind: 'inline', name: 'brainstorming', content: 'Think first.' },
        { kind: 'inline', name: 'superpowers', content: 'Think first.' },
      ],
    });
  expect(createFetchEvents(skills, 7)[0]).toEqual({
    id: 'run/skill-fetched/remote:obra/superpowers/brainstorming',
    atMs: 7,
    body: {
      type: 'notice',
      level: 'info',
      message: expect.stringMatching(
        /^the agent skill remote:obra\/superpowers\/brainstorming was fetched: sha256 [0-9a-f]{64}, 12 bytes$/,
      ),
    },
  });
});

it('a plan that has been admitted once has nothing to fetch', async () => {
  const { fetch, asked } = counting();
  const { plan } = await withRemoteAgentSkills(fetch, planOf([REMOTE]));
  expect(await withRemoteAgentSkills(fetch, plan)).toEqual({ plan, skills: [] });
  expect(asked).toHaveLength(1);
});

it('no skill is fetched for an agent that is played', async () => {
  const plan = planOf([REMOTE], true);
  expect(await withRemoteAgentSkills(undefined, plan)).toEqual({ plan, skills: [] });
});

it.each([
  ['no text', Uint8Array.of(0xff, 0xfe, 0x41), 'not UTF-8 text'],
  ['a text with a zero byte', 'a\0b', 'not UTF-8 text'],
  ['nothing', ' \n', 'is empty'],
])('a document that is %s is an error which names its stage', async (_, answer, reason) => {
  const error = await withRemoteAgentSkills(counting(answer).fetch, planOf([REMOTE])).catch(
    (caught: unknown) => caught,
  );
  expect(error).toMatchObject({
    code: 'admit/skill-unavailable',
    message: expect.stringMatching(
      new RegExp(`^the agent skill remote:obra/superpowers/brainstorming of stage one .*${reason}`),
    ),
  });
});

it('a skill that cannot be fetched is an error that names its stage; other errors pass unchanged', async () => {
  const failing =
    (error: Error): FetchAgentSkill =>
    () =>
      Promise.reject(error);
  await expect(
    withRemoteAgentSkills(failing(new AgentSkillUnavailable('https://x: status 404')), planOf([REMOTE])),
  ).rejects.toThrow('of stage one cannot be fetched: https://x: status 404');
  await expect(withRemoteAgentSkills(failing(new TypeError('x')), planOf([REMOTE]))).rejects.toBeInstanceOf(TypeError);
});

it('a worker that fetches no skills rejects them, and a run may fetch a limited number', async () => {
  await expect(withRemoteAgentSkills(undefined, planOf([REMOTE]))).rejects.toThrow(
    'this worker does not fetch agent skills',
  );
  const many = (count: number): readonly AgentSkill[] =>
    Array.from({ length: count }, (_, index) => ({ kind: 'remote', repository: `a/r${index}`, skill: null }));
  const { fetch } = counting();
  expect((await withRemoteAgentSkills(fetch, planOf(many(REMOTE_SKILL_LIMITS.count)))).skills).toHaveLength(32);
  await expect(withRemoteAgentSkills(fetch, planOf(many(REMOTE_SKILL_LIMITS.count + 1)))).rejects.toThrow(
    'the plan has 33 different agent skills `remote:`; a run fetches at most 32',
  );
  const long: AgentSkill = { kind: 'remote', repository: 'a/b', skill: 'x'.repeat(65) };
  await expect(withRemoteAgentSkills(fetch, planOf([long]))).rejects.toThrow('its name has 65 characters');
});
