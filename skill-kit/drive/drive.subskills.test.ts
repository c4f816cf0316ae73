import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { answer, open, started } from '../../test/rig/skills/session-in-process.ts';
import { skillOf, TERMINAL } from '../../test/rig/skills/erased-skill.ts';
import { startSession } from './drive.ts';

describe('sub-skills', () => {
  const deep = skillOf({ d: { prompt: 'd', response: z.object({ d: z.number() }), next: TERMINAL } }, { name: 'deep' });
  const sub = skillOf(
    {
      ask: { prompt: ({ params }) => `for ${(params as { who: string }).who}`, next: 'dig' },
      dig: { call: 'deep', next: 'auto' },
      auto: { save: ({ store }) => ({ step: { dug: store.steps['dig'] } }), next: TERMINAL },
    },
    {
      name: 'sub',
      system: 'You dig.',
      params: z.object({ who: z.string() }),
      subskills: { deep: { definition: deep } },
    },
  );
  const dispatcher = skillOf(
    {
      route: {
        prompt: 'route',
        response: z.object({ to: z.string() }),
        next: ({ response }) => (response as { to: string }).to,
      },
      research: { call: 'sub', save: ({ actionResult }) => ({ found: { it: actionResult } }), next: 'report' },
      report: { prompt: ({ store }) => JSON.stringify(store['found']), next: TERMINAL },
    },
    {
      subskills: {
        sub: { definition: sub, paramsMap: (response) => ({ who: (response as { to?: string })?.to ?? 'nobody' }) },
      },
      topics: { help: { label: 'Help', content: ({ refs }) => refs.load('help.md') } },
    },
  );

  test('nest, are given params by the step that leads to them, and end the session with their output', async () => {
    const session = await started(dispatcher);
    expect(await answer(session, 'route', { to: 'subskill:sub' })).toMatchObject({
      step: 'sub/ask',
      preamble: expect.stringMatching(/^You dig\./) as string,
      completed: { step: 'route' },
      prompt: '<prompt>\nfor subskill:sub\n</prompt>',
    });
    expect(await answer(session, 'sub/ask')).toMatchObject({ step: 'sub/dig/d' });
    expect(await answer(session, 'sub/dig/d', { d: 7 })).toMatchObject({
      kind: 'done',
      finalOutput: { dug: { d: 7 } },
      autoAdvanced: [{ step: 'sub/dig', actionResult: { d: 7 } }, { step: 'sub/auto' }],
    });
  });

  test('that are called come back with their output as the result of the step', async () => {
    const session = await started(dispatcher);
    expect(await answer(session, 'route', { to: 'research' })).toMatchObject({ step: 'research/ask' });
    // The bare name is enough while it is the only one.
    expect(await answer(session, 'ask')).toMatchObject({ step: 'research/dig/d' });
    expect(await answer(session, 'research/dig/d', { d: 7 })).toMatchObject({
      step: 'report',
      prompt: expect.stringContaining('"dug":{"d":7}') as string,
    });
    expect(Object.keys(session.state.frames)).toEqual(['0']);
  });

  test('a redirect to a topic gives its content', async () => {
    const session = await started(dispatcher, { refs: { load: (name) => `text of ${name}`, asset: (path) => path } });
    expect(await answer(session, 'route', { to: 'topic:help' })).toMatchObject({
      kind: 'done',
      finalOutput: { topic: 'help', content: 'text of help.md' },
      completed: { step: 'route' },
    });
  });

  test('defect: a reference that cannot be loaded is an error, not an empty text', async () => {
    await expect(answer(await started(dispatcher), 'route', { to: 'topic:help' })).rejects.toThrow(
      'without a reference loader',
    );
  });

  test('a session can leave redirects to its client', async () => {
    const session = await started(dispatcher, { followRedirects: false });
    expect(await answer(session, 'route', { to: 'subskill:sub' })).toMatchObject({
      kind: 'redirect',
      redirect: 'subskill:sub',
      completed: { step: 'route' },
    });
  });

  test.each([
    ['subskill:sup', 'Redirect to unknown sub-skill "sup". Known: sub.'],
    ['topic:hlep', 'Redirect to unknown topic "hlep". Known: help.'],
  ])('a redirect to %s says which there are', async (to, message) => {
    await expect(answer(await started(dispatcher), 'route', { to })).rejects.toThrow(message);
  });

  test('can be started on their own, under the names they have in the skill', async () => {
    const session = open(dispatcher, { subskill: 'sub', params: { who: 'me' } });
    expect(await startSession(session)).toMatchObject({ step: 'sub/ask', prompt: '<prompt>\nfor me\n</prompt>' });
    await answer(session, 'sub/ask');
    expect(await answer(session, 'sub/dig/d', { d: 1 })).toMatchObject({ kind: 'done' });
  });
});
