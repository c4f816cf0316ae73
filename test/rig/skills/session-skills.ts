/** Skills that tests of sessions run. Each sees `skill`, `terminal`, `z`, `log(text)` and some of `node:fs`. */

/** Asks, saves, asks again, ends. */
export const GREETER = `export default skill({ name: 'greeter', version: '1.0.0', entry: 'ask', params: z.object({ place: z.string() }), stores: { who: z.object({ name: z.string() }) } })
  .step('ask', {
    prompt: ({ params }) => 'Who are you, in ' + params.place + '?',
    response: z.object({ name: z.string().min(2) }),
    save: ({ response }) => ({ who: { name: response.name } }),
    next: 'confirm',
  })
  .step('confirm', {
    prompt: ({ store }) => 'Is it ' + store.who.name + '?',
    response: z.object({ yes: z.boolean() }),
    next: ({ response }) => (response.yes ? 'end' : 'ask'),
  })
  .step('end', { save: ({ store }) => ({ step: 'Hello ' + store.who.name }), next: terminal })
  .build();
`;

/**
 * One action with observers. A file that `params.die` names makes the worker die, once, at that point: in the schema's
 * check, at the begin, in the middle or at the end of the action.
 */
export const DEPLOYER = `
const dieAt = (point: string, die: string): void => {
  if (die !== point || existsSync(LINES + '.' + point)) return;
  writeFileSync(LINES + '.' + point, '');
  process.kill(process.ppid, 'SIGKILL');
  // This process would hear of it a moment later, and do more until then.
  process.kill(process.pid, 'SIGKILL');
};
export default skill({
  name: 'deployer', version: '1.0.0', entry: 'ask', params: z.object({ die: z.string(), observe: z.string().default('') }),
  observers: {
    onStepComplete: (event) => { log('observed complete ' + event.step); },
    onTransition: (event) => { log('observed ' + event.from + ' to ' + event.to); },
  },
})
  .step('ask', {
    prompt: 'Where to?',
    response: z.object({ to: z.string().refine((to) => { dieAt(to, 'check'); return true; }) }),
    action: async ({ params, idempotencyKey, attempt, response }) => {
      dieAt('begin', params.die);
      log('begun ' + idempotencyKey + ' attempt ' + attempt);
      dieAt('middle', params.die);
      await new Promise((resolve) => setTimeout(resolve, 50));
      log('done ' + idempotencyKey);
      dieAt('end', params.die);
      return { at: response.to };
    },
    next: 'end',
  })
  .step('end', { prompt: 'Well?', response: z.object({ ok: z.boolean() }), next: terminal })
  .build();
`;

/** A step whose name is longer than a summary may be, with an action. */
const LONG_STEP = 'x'.repeat(500);
export const LONG = `export default skill({ name: 'long', entry: '${LONG_STEP}' })
  .step('${LONG_STEP}', {
    prompt: 'Go on?',
    response: z.object({ ok: z.boolean() }),
    action: () => Promise.resolve(1),
    next: terminal,
  })
  .build();
`;

/** Callbacks that harm. */
export const EVIL = `export default skill({ name: 'evil', entry: 'ask', stores: { kept: z.object({ said: z.string() }) } })
  .step('ask', {
    prompt: 'Say something',
    response: z.object({ said: z.string() }),
    save: ({ response }) => {
      if (response.said === 'loop') for (;;) {}
      if (response.said === 'exit') process.exit(7);
      if (response.said === 'abort') process.abort();
      if (response.said === 'throw') throw new Error('no thanks');
      if (response.said === 'huge') return { kept: { said: 'x'.repeat(2_000_000) } };
      return { kept: { said: response.said } };
    },
    next: 'act',
  })
  .step('act', {
    prompt: 'Act how?',
    response: z.object({ how: z.string() }),
    action: ({ response }) => {
      if (response.how === 'loop') for (;;) {}
      if (response.how === 'exit') process.exit(8);
      return { how: response.how };
    },
    timeoutMs: 500,
    next: terminal,
  })
  .build();
`;

/** Counts until an output ends it; each prompt contains all that it has seen. */
export const COUNTER = `export default skill({
  name: 'counter', entry: 'count', stores: { sum: z.object({ total: z.number() }) },
  observers: { onSkillComplete: ({ path }) => { log('counted by ' + path.length + ' steps, the last one is ' + path.at(-1)); } },
})
  .step('count', {
    prompt: ({ attempts, store }) => 'visit ' + attempts + ', total ' + (store.sum?.total ?? 0) + ', history ' + (attempts % 100 === 0 ? store.steps.history.length : '-'),
    response: z.object({ n: z.number() }),
    maxVisits: 5_000,
    save: ({ response, store }) => ({ sum: { total: (store.sum?.total ?? 0) + response.n } }),
    next: [{ to: 'end', when: ({ response }) => response.n < 0 }, { to: 'self' }],
  })
  .step('end', { save: ({ store }) => ({ step: { total: store.sum.total, visits: store.steps.history.length } }), next: terminal })
  .build();
`;

/** Calls a sub-skill that asks, and waits. */
export const CALLER = `
const inner = skill({ name: 'inner', entry: 'ask', params: z.object({ topic: z.string() }) })
  .step('ask', { prompt: ({ params }) => 'What of ' + params.topic + '?', response: z.object({ text: z.string() }), next: 'more' })
  .step('more', { prompt: 'And more?', response: z.object({ text: z.string() }), save: ({ store, response }) => ({ step: store.steps.ask.text + ', ' + response.text }), next: terminal })
  .build();
export default skill({ name: 'caller', entry: 'topic' })
  .step('topic', { prompt: 'Which topic?', response: z.object({ topic: z.string() }), next: 'audit' })
  .step('audit', { call: 'inner', next: 'rest' })
  .step('rest', { wait: { durationMs: 1_000 }, next: 'end' })
  .step('end', { prompt: ({ store }) => 'Got ' + store.steps.audit + '. Fine?', response: z.object({ fine: z.boolean() }), next: terminal })
  .subskill('inner', inner, { params: (_response, store) => ({ topic: store.steps.topic.topic }) })
  .build();
`;

/** Versions of one skill: `word` tells them apart. */
export function versioned(word: string, version: string, extra = '', step = 'two'): string {
  return `export default skill({ name: 'versioned', version: '${version}', entry: 'one'${extra} })
  .step('one', { prompt: '${word} one', response: z.object({ a: z.string() }), next: '${step}' })
  .step('${step}', { prompt: ({ store }) => '${word} two after ' + store.steps.one.a, response: z.object({ b: z.string() }), next: 'three' })
  .step('three', { prompt: '${word} three', response: z.object({ c: z.string() }), next: terminal })
  .build();
`;
}

/** Two at once, whose actions end when both have begun, and a person who does not answer. */
export const REVIEW = `
import { readFileSync } from 'node:fs';
const both = async (word) => {
  log('reviews ' + word);
  const begun = () => readFileSync(LINES, 'utf8').split('\\n');
  for (const end = Date.now() + 60_000; !['style', 'safety'].every((one) => begun().includes('reviews ' + one));) {
    if (Date.now() > end) throw new Error('the other one did not begin meanwhile');
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
};
const branch = (word) => ({ prompt: word + '?', response: z.object({ note: z.string() }), action: async ({ response }) => { await both(word); return word + ':' + response.note; }, next: 'join' });
export default skill({ name: 'review', entry: 'split' })
  .step('split', { parallel: { branches: ['style', 'safety'], join: 'join' } })
  .step('style', branch('style'))
  .step('safety', branch('safety'))
  .step('join', { save: ({ store }) => ({ step: store.steps.style + ' ' + store.steps.safety }), next: 'sign' })
  .step('sign', { prompt: 'Sign?', response: z.object({ by: z.string() }), human: { deadlineMs: 1_500, onExpiry: 'late', assignee: 'boss' }, next: terminal })
  .step('late', { prompt: ({ store }) => 'Nobody signed ' + store.steps.join, response: z.object({ ok: z.boolean() }), next: terminal })
  .build();
`;

/** Three at once: two that keep their process busy for a second and a half, one that lets the session fail. */
export const PAIR = `
const branch = { prompt: 'Go?', response: z.object({}), save: () => { log('saving'); for (const end = Date.now() + 1_500; Date.now() < end;); return {}; }, next: 'join' };
export default skill({ name: 'pair', entry: 'split' })
  .step('split', { parallel: { branches: ['left', 'right', 'strict'], join: 'join' } })
  .step('left', branch)
  .step('right', branch)
  .step('strict', { prompt: 'Yes?', response: z.object({ yes: z.string().refine(() => { log('judging'); for (const end = Date.now() + 1_000; Date.now() < end;); return false; }) }), maxInvalid: 1, next: 'join' })
  .step('join', { next: terminal })
  .build();
`;

/** Continues on its own after a moment. */
export function waiter(version: string): string {
  return `export default skill({ name: 'waiter', version: '${version}', entry: 'ask' })
  .step('ask', { prompt: 'Ready?', response: z.object({}), next: 'rest' })
  .step('rest', { wait: { durationMs: 2_000 }, next: 'end' })
  .step('end', { prompt: 'Done, ${version}?', response: z.object({}), next: terminal })
  .build();
`;
}
