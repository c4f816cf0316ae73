/** Sessions of a test, instead of those of a Temporal server. Each step answers with its turn. */
import { AppError } from '../../../app/app-error.ts';
import type { SessionView } from '../../../activities/contract-session.ts';
import type { SessionControl, SessionStart } from '../../../app/sessions/session-control.ts';
import type { SessionResult } from '../../../domain/step-machine/result.ts';

export interface MemorySessions extends SessionControl {
  readonly starts: SessionStart[];
  /** Each answer that arrived, as JSON. */
  readonly answers: string[];
  /** The work of each answer waits for this. */
  work: Promise<unknown>;
}

export function createMemorySessions(ids: readonly string[] = []): MemorySessions {
  const turns = new Map(ids.map((id) => [id, 1]));
  const [starts, answers]: [SessionStart[], string[]] = [[], []];
  const prompt = (turn: number): SessionResult => ({
    kind: 'prompt',
    step: 'ask',
    prompt: `turn ${turn}`,
    schema: null,
    turn,
  });
  const find = (session: string): number => {
    const turn = turns.get(session);
    if (turn !== undefined) return turn;
    throw new AppError('usage', 'api/no-session', `there is no session ${session}`);
  };
  const sessions: MemorySessions = {
    starts,
    answers,
    work: Promise.resolve(),
    async start(request) {
      starts.push(request);
      if (turns.has(request.session))
        throw new AppError('usage', 'api/session-exists', `session ${request.session} already exists`);
      turns.set(request.session, 1);
      await sessions.work;
      return prompt(1);
    },
    async advance(session, answer) {
      const turn = find(session);
      answers.push(JSON.stringify(answer));
      await sessions.work;
      turns.set(session, turn + 1);
      return prompt(turn + 1);
    },
    async settle(session) {
      await sessions.work;
      return prompt(find(session));
    },
    view: (session) => Promise.resolve().then(() => createView(session, find(session))),
    findPage: () => 'http://127.0.0.1:8233/page',
    list: ({ limit, isVisible = () => true }) =>
      Promise.resolve(
        [...turns.keys()]
          .filter(isVisible)
          .slice(0, limit)
          .map((session) => ({ session, skill: 'greeter', state: 'open', startedAtMs: 1_000, endedAtMs: null })),
      ),
    listWaiting: async (query) => ({
      sessions: (await sessions.list(query)).map((one) => ({
        ...one,
        waiting: [{ step: 'ask', turn: 1, assignee: 'ada', dueMs: 60_000 }],
      })),
      unasked: [{ session: 'silent', reason: 'no worker' }],
    }),
    async *readHistory(session) {
      for (let turn = 1; turn < find(session); turn += 1)
        yield { step: 'ask', turn, frame: 0, response: 'x', result: 'x' };
    },
    async cancel(session) {
      find(session);
      await sessions.work;
      return turns.delete(session);
    },
  };
  return sessions;
}

function createView(session: string, turn: number): SessionView {
  return {
    session,
    skill: 'greeter',
    version: '1.0.0',
    codeHash: 'a'.repeat(64),
    status: 'open',
    turn,
    startedAtMs: 1_000,
    current: null,
    open: [{ step: 'ask', turn, phase: 'prompt', human: { assignee: 'ada', dueMs: 60_000 } }],
    visits: { ask: turn - 1 },
    last: null,
    childSessions: [],
    blocked: null,
  };
}
