/**
 * Tests what the compiler knows about stores. `tsc -b` compiles this file with the tests (`npm run check`, and
 * libraries.process.test.ts in `npm test`). A line below `@ts-expect-error` must not compile, and every other line
 * must. At run time the tests show that these skills can be built.
 */
import { type } from 'arktype';
import { describe, expect, expectTypeOf, it } from 'vitest';
import { z } from 'zod';
import { action, act, module, skill, step, terminal } from '../exports.ts';
import type {
  ActionContext,
  PromptContext,
  PromptFn,
  SaveContext,
  TransitionContext,
  TransitionFn,
} from './author-types.ts';
import type { DeepPartial, DeepReadonly } from './store-types.ts';
import type { DeclareBefore } from './skill-builder.ts';

const Text = z.object({ text: z.string() });
const Ok = type({ ok: 'boolean' });

describe('narrowing of store.steps', () => {
  it('guarantees the steps of a chain, zod and ArkType alike', () => {
    skill({ name: 's', entry: 'a' })
      .step('a', { prompt: 'A', response: Text, next: 'b' })
      .step('b', {
        prompt({ store }) {
          expectTypeOf(store.steps.a).toEqualTypeOf<{ text: string }>();
          return 'B';
        },
        response: Ok,
        next: 'c',
      })
      .step('c', {
        prompt({ store }) {
          expectTypeOf(store.steps.a.text).toBeString();
          expectTypeOf(store.steps.b.ok).toBeBoolean();
          // @ts-expect-error c has not run
          void store.steps.c;
          return 'C';
        },
        next: terminal,
      })
      .build();
  });

  it('makes branches optional, guarantees what comes before them, and promotes where they meet', () => {
    skill({ name: 's', entry: 'root' })
      .step('root', {
        prompt: 'R',
        response: Text,
        next: [{ to: 'left', when: ({ response }) => response.text === 'l' }, { to: 'right' }],
      })
      .step('left', { prompt: 'L', response: Text, next: 'merge' })
      .step('right', {
        prompt({ store }) {
          expectTypeOf(store.steps.root.text).toBeString();
          expectTypeOf(store.steps.left).toEqualTypeOf<{ text: string } | undefined>();
          // @ts-expect-error only one branch runs
          void store.steps.left.text;
          return 'R';
        },
        response: Text,
        next: 'merge',
      })
      .step('merge', {
        prompt({ store }) {
          expectTypeOf(store.steps.root.text).toBeString();
          // @ts-expect-error left is on one path only
          void store.steps.left.text;
          // @ts-expect-error right is on one path only
          void store.steps.right.text;
          return 'M';
        },
        response: Ok,
        maxVisits: 3,
        onMaxVisits: 'end',
        next: [{ to: 'merge', when: ({ response }) => !response.ok }, { to: 'end' }],
      })
      .step('end', {
        prompt({ store }) {
          expectTypeOf(store.steps.root.text).toBeString();
          expectTypeOf(store.steps.merge.ok).toBeBoolean();
          expectTypeOf(store.steps.left?.text).toEqualTypeOf<string | undefined>();
          expectTypeOf(store.steps.all('merge')).toEqualTypeOf<{ ok: boolean }[]>();
          return 'E';
        },
        next: terminal,
      })
      .build();
  });

  it('promotes transitively: b runs on every path to c, however many steps lie between', () => {
    skill({ name: 's', entry: 'root' })
      .step('root', { prompt: 'R', response: Text, next: [{ to: 'x', when: () => true }, { to: 'y' }] })
      .step('x', { prompt: 'X', response: Text, next: 'x2' })
      .step('x2', { prompt: 'X2', response: Text, next: 'b' })
      .step('y', { prompt: 'Y', response: Text, next: 'b' })
      .step('b', { prompt: 'B', response: Ok, next: 'c' })
      .step('c', {
        prompt({ store }) {
          expectTypeOf(store.steps.b.ok).toBeBoolean();
          // @ts-expect-error x2 is on the way through x only
          void store.steps.x2.text;
          return 'C';
        },
        next: terminal,
      });
  });

  it('a branch that ends the skill takes nothing from the others', () => {
    for (const end of [terminal, { terminal: true } as const]) {
      skill({ name: 's', entry: 'root' })
        .step('root', {
          prompt: 'R',
          response: Ok,
          next: [{ to: 'stop', when: ({ response }) => response.ok }, { to: 'y' }],
        })
        .step('stop', { prompt: 'S', response: Text, next: end })
        .step('y', { prompt: 'Y', response: Text, next: 'z' })
        .step('z', {
          prompt({ store }) {
            expectTypeOf(store.steps.y.text).toBeString();
            // @ts-expect-error the skill has ended there
            void store.steps.stop.text;
            return 'Z';
          },
          next: { terminal: true },
        })
        .build();
    }
  });

  it('loops back without losing anything', () => {
    skill({ name: 's', entry: 'a' })
      .step('a', { prompt: 'A', response: Text, next: 'b' })
      .step('b', { prompt: 'B', response: Ok, next: [{ to: 'c', when: ({ response }) => response.ok }, { to: 'a' }] })
      .step('c', {
        prompt({ store }) {
          expectTypeOf(store.steps.a.text).toBeString();
          expectTypeOf(store.steps.b.ok).toBeBoolean();
          return 'C';
        },
        next: 'self',
      });
  });

  it('reads the targets of a function from what it returns', () => {
    skill({ name: 's', entry: 'a' })
      .step('a', { prompt: 'A', response: Ok, next: ({ response }) => (response.ok ? 'done' : 'mend') })
      .step('mend', { prompt: 'M', response: Text, next: 'done' })
      .step('done', {
        prompt({ store }) {
          expectTypeOf(store.steps.a.ok).toBeBoolean();
          // @ts-expect-error a goes straight to done when all is well
          void store.steps.mend.text;
          return 'D';
        },
        next: terminal,
      });
  });

  it('does not trust what follows a target that it cannot see', () => {
    skill({ name: 's', entry: 'a' })
      .step('a', { prompt: 'A', response: Text, next: ({ response }): string => response.text })
      .step('b', { prompt: 'B', response: Text, next: 'c' })
      .step('c', {
        prompt({ store }) {
          expectTypeOf(store.steps.a.text).toBeString();
          // @ts-expect-error a may have gone to c without b
          void store.steps.b.text;
          return 'C';
        },
        next: terminal,
      });
  });

  it('counts where visits run out, and not the answer that never came', () => {
    skill({ name: 's', entry: 'a' })
      .step('a', { prompt: 'A', response: Text, human: { deadlineMs: 1000, onExpiry: 'late' }, next: 'b' })
      .step('b', { prompt: 'B', response: Text, next: 'late' })
      .step('late', {
        prompt({ store }) {
          // @ts-expect-error a may have no answer
          void store.steps.a.text;
          return 'L';
        },
        next: terminal,
      });
  });

  it('guarantees every branch of parallel steps at their join, and none within another', () => {
    skill({ name: 's', entry: 'start' })
      .step('start', { prompt: 'S', response: Text, next: 'fork' })
      .step('fork', { parallel: { branches: ['p', 'q'], join: 'join' } })
      .step('p', { prompt: 'P', response: Text, next: 'join' })
      .step('q', {
        prompt({ store }) {
          expectTypeOf(store.steps.start.text).toBeString();
          // @ts-expect-error p runs at the same time
          void store.steps.p.text;
          return 'Q';
        },
        response: Ok,
        next: 'join',
      })
      .step('join', {
        prompt({ store }) {
          expectTypeOf(store.steps.p.text).toBeString();
          expectTypeOf(store.steps.q.ok).toBeBoolean();
          return 'J';
        },
        next: terminal,
      })
      .build();
  });

  it('refuses a step that leads to one above which was typed without it', () => {
    const chain = skill({ name: 's', entry: 'a' })
      .step('a', { prompt: 'A', response: Ok, next: ({ response }) => (response.ok ? 'b' : 'c') })
      .step('b', { prompt: 'B', response: Text, next: 'end' })
      .step('end', { prompt: ({ store }) => store.steps.b.text, next: terminal })
      .step('c', { prompt: 'C', next: 'end' });
    expectTypeOf(chain).toEqualTypeOf<DeclareBefore<'c', 'end'>>();
  });
});

describe('results', () => {
  const check = action({
    name: 'check',
    input: type({ urls: 'string[]' }),
    output: z.object({ bad: z.array(z.string()) }),
    run: ({ input }) => ({ bad: input.urls }),
  });

  it('are what save gives, else what the action gives, else the response', () => {
    skill({ name: 's', entry: 'a' })
      .step('a', {
        prompt: 'A',
        response: type({ links: 'string[]' }),
        action: { run: check, mapInput: ({ response }) => ({ urls: response.links }) },
        next: 'b',
      })
      .step('b', {
        prompt: 'B',
        response: Text,
        action: async ({ response, signal }) => ({ size: response.text.length, stopped: signal.aborted }),
        next: 'c',
      })
      .step('c', {
        prompt: 'C',
        response: Text,
        action: () => ({ n: 1 }),
        save: ({ response, actionResult }) => ({ step: { upper: response.text.toUpperCase(), n: actionResult.n } }),
        next: 'd',
      })
      .step('d', { prompt: 'D', response: Text, save: () => {}, next: 'e' })
      .step('e', { prompt: 'E', response: Text, save: () => ({}), next: 'f' })
      .step('f', { prompt: 'F', next: 'g' })
      .step('g', {
        prompt({ store }) {
          expectTypeOf(store.steps.a).toEqualTypeOf<{ bad: string[] }>();
          expectTypeOf(store.steps.b).toEqualTypeOf<{ size: number; stopped: boolean }>();
          expectTypeOf(store.steps.c).toEqualTypeOf<{ upper: string; n: number }>();
          expectTypeOf(store.steps.d.text).toBeString();
          expectTypeOf(store.steps.e.text).toBeString();
          // @ts-expect-error f asks for no answer
          void store.steps.f.text;
          return 'G';
        },
        next: terminal,
      })
      .build();
  });

  it('reach next and save', () => {
    skill({ name: 's', entry: 'a', params: z.object({ strict: z.boolean().default(true) }) }).step('a', {
      prompt: ({ params }) => String(params.strict),
      response: Ok,
      action: ({ params }) => Promise.resolve({ count: params.strict ? 1 : 0 }),
      next({ response, actionResult, attempts, params }) {
        expectTypeOf(response.ok).toBeBoolean();
        expectTypeOf(actionResult.count).toBeNumber();
        expectTypeOf(attempts).toBeNumber();
        expectTypeOf(params.strict).toBeBoolean();
        return 'self';
      },
    });
  });

  it('a mapper gives what the action takes', () => {
    const base = skill({ name: 's', entry: 'a' });
    // @ts-expect-error urls are a list
    base.step('a', {
      prompt: 'A',
      response: Text,
      action: { run: check, mapInput: ({ response }) => ({ urls: response.text }) },
      next: terminal,
    });
  });
});

describe('sub-stores', () => {
  const stores = { env: type({ host: 'string', port: 'number' }), config: z.object({ mode: z.string() }) };

  it('are optional until a step on every path has written them', () => {
    skill({ name: 's', entry: 'root', stores })
      .step('root', { prompt: 'R', response: Text, next: 'init' })
      .step('init', {
        prompt({ store }) {
          // @ts-expect-error env is not written yet
          void store.env.host;
          return 'I';
        },
        response: Text,
        save: ({ response }) => ({ env: { host: response.text } }),
        next: [{ to: 'a', when: ({ store }) => store.config?.mode === 'x' }, { to: 'b' }],
      })
      .step('a', { prompt: 'A', save: () => ({ config: { mode: 'alpha' } }), next: 'final' })
      .step('b', { prompt: 'B', next: 'final' })
      .step('final', {
        prompt({ store }) {
          // Root, which has no save, is on every path, too.
          expectTypeOf(store.steps.root.text).toBeString();
          expectTypeOf(store.env.host).toBeString();
          expectTypeOf(store.env.port).toEqualTypeOf<number | undefined>();
          expectTypeOf(store.config?.mode).toEqualTypeOf<string | undefined>();
          // @ts-expect-error read-only
          store.env.host = 'x';
          return 'F';
        },
        next: terminal,
      })
      .build();
  });

  it('written on one way through save only stay optional', () => {
    skill({ name: 's', entry: 'a', stores })
      .step('a', {
        prompt: 'A',
        response: Ok,
        save: ({ response }) => (response.ok ? { env: { host: 'h' } } : undefined),
        next: 'b',
      })
      .step('b', {
        prompt({ store }) {
          // @ts-expect-error a may have written nothing
          void store.env.host;
          return 'B';
        },
        next: terminal,
      });
  });

  it('refuse other shapes and other names', () => {
    const base = skill({ name: 's', entry: 'a', stores });
    // @ts-expect-error host is a text
    base.step('a', { prompt: 'A', save: () => ({ env: { host: 1 } }), next: terminal });
    // @ts-expect-error there is no such sub-store
    base.step('a', { prompt: 'A', save: () => ({ nope: { x: 1 } }), next: terminal });
    // @ts-expect-error a number is no writes
    base.step('a', { prompt: 'A', save: () => 5, next: terminal });
    // @ts-expect-error nor is a text
    base.step('a', { prompt: 'A', save: ({ response }) => JSON.stringify(response), next: terminal });
    // @ts-expect-error nor a list
    base.step('a', { prompt: 'A', save: () => ['x'], next: terminal });
  });
});

describe('shared steps, modules and shapes', () => {
  it('an extension keeps the types of its base', () => {
    const confirm = step({ prompt: 'Sure?', response: type({ confirmed: 'boolean' }), next: '__parent__' });
    skill({ name: 's', entry: 'a' })
      .step('a', { prompt: 'A', response: Text, next: 'b' })
      .extend('b', confirm, {
        prompt: ({ store }) => `Sure about ${store.steps.a.text}?`,
        next: ({ response }) => (response.confirmed ? 'c' : 'a'),
      })
      .step('c', {
        prompt({ store }) {
          expectTypeOf(store.steps.b).toEqualTypeOf<{ confirmed: boolean }>();
          return 'C';
        },
        next: terminal,
      })
      .build();
  });

  it('a module guarantees its steps to what comes after it', () => {
    const login = module({ name: 'login', entry: 'user' })
      .step('user', {
        prompt: 'U',
        response: type({ user: 'string' }),
        next: [{ to: 'mfa', when: ({ response }) => response.user === 'x' }, { to: '__parent__' }],
      })
      .step('mfa', { prompt: ({ store }) => store.steps.user.user, response: Ok, next: '__parent__' })
      .build();
    skill({ name: 's', entry: 'a' })
      .step('a', { prompt: 'A', response: Text, next: 'user' })
      .register(login, { next: 'home' })
      .step('home', {
        prompt({ store }) {
          expectTypeOf(store.steps.a.text).toBeString();
          expectTypeOf(store.steps.user.user).toBeString();
          expectTypeOf(store.steps.mfa?.ok).toEqualTypeOf<boolean | undefined>();
          return 'H';
        },
        next: terminal,
      })
      .build();
  });

  it('a response needs a prompt, and every step a way on', () => {
    // @ts-expect-error who should answer?
    step({ response: Text, next: 'b' });
    step({ next: 'b' });
    // @ts-expect-error next is missing
    expect(() => step({ prompt: 'x' })).toThrow('step: next is required');
    // @ts-expect-error branches have targets
    step({ prompt: 'x', next: [{ when: () => true }] });
    // @ts-expect-error not a primitive
    step({ prompt: { kind: 'nonsense' }, next: 'b' });
    step({ prompt: [act.confirm({ message: 'm' }), 'and then'], next: 'b' });
  });

  it('a step made by step() keeps its types in .step(), too', () => {
    skill({ name: 's', entry: 'a' })
      .step('a', step({ prompt: 'A', response: Text, next: 'b' }))
      .step('b', { prompt: ({ store }) => store.steps.a.text, next: terminal })
      .build();
  });

  it('callbacks that are typed by the exported contexts serve the steps of any skill', () => {
    const asks: PromptFn = ({ store, attempts }) =>
      `${attempts}: ${store.steps.history.length} of ${String(store.steps['a'])}`;
    const asksOf = ({ params, refs }: PromptContext): string => `${String(params)} ${refs.load('x.md')}`;
    const acts = async ({ store }: ActionContext): Promise<{ ran: boolean }> => ({ ran: store.steps.ran('a') });
    const saves = ({ response }: SaveContext): { step: { seen: unknown } } => ({ step: { seen: response } });
    const isSecond = ({ attempts, store }: TransitionContext): boolean =>
      attempts > 1 && store.steps.all('a').length > 1;
    const leads: TransitionFn = ({ attempts }) => (attempts > 1 ? 'c' : 'b');
    skill({ name: 's', entry: 'a', params: Text, stores: { notes: Text } })
      .step('a', {
        prompt: asks,
        response: Text,
        action: acts,
        save: saves,
        next: [{ to: 'c', when: isSecond }, { to: 'b' }],
        maxVisits: 3,
      })
      .step('b', { prompt: asksOf, next: leads })
      .step('c', { prompt: ({ store }) => String(store.steps.a.seen), next: terminal })
      .build();
  });

  it('parts and read-only views stop at what is whole', () => {
    expectTypeOf<DeepPartial<{ a: { b: string; c: Date }; d: boolean }>>().toEqualTypeOf<{
      a?: { b?: string; c?: Date };
      d?: boolean;
    }>();
    expectTypeOf<DeepReadonly<{ a: { b: number[] } }>>().toEqualTypeOf<{
      readonly a: { readonly b: readonly number[] };
    }>();
  });
});
