import { expect, test } from 'vitest';
import { skillOf, TERMINAL } from '../../test/rig/skills/erased-skill.ts';
import type { SkillDefinition } from './definition.ts';
import { diagnose } from './diagnose.ts';
import { factsOf } from './facts.ts';
import type { AnySchema } from './schema.ts';

const anything: AnySchema = { '~standard': { version: 1, vendor: 'test', validate: (value) => ({ value }) } };

const messages = (skill: SkillDefinition): string[] =>
  diagnose(skill).map(({ severity, step, message }) => `${severity} ${step ?? ''}: ${message}`);

test('a sound skill has no diagnostics', () => {
  expect(
    messages(
      skillOf(
        {
          a: { prompt: 'a', next: [{ to: 'b', when: () => true }, { to: 'self' }] },
          b: { prompt: 'b', next: 'topic:t' },
        },
        { topics: { t: { label: 'T', content: () => '' } } },
      ),
    ),
  ).toEqual([]);
});

test('every unknown target is named, inside and outside of cycles', () => {
  const skill = skillOf({
    a: { prompt: 'a', next: 'gone', onMaxVisits: 'lost' },
    b: { prompt: 'b', next: [{ to: 'nowhere' }], human: { deadlineMs: 1, onExpiry: 'late' } },
    c: { prompt: 'c', next: 'subskill:s' },
    d: { call: 's', next: 'topic:t' },
    e: { prompt: 'e', next: '__parent__' },
    f: { parallel: { branches: ['x', 'a'], join: 'y' } },
  });
  expect(messages(skill)).toEqual([
    'error a: Step "a" has next "gone" which does not exist in steps.',
    'error a: Step "a" has onMaxVisits "lost" which does not exist in steps.',
    'error b: Step "b" has a branch to "nowhere" which does not exist in steps.',
    'error b: Step "b" has human.onExpiry "late" which does not exist in steps.',
    'error c: Step "c" has next "subskill:s", but no such sub-skill is registered.',
    'error d: Step "d" has next "topic:t", but no such topic is registered.',
    'error d: Step "d" calls the sub-skill "s", which is not registered.',
    expect.stringMatching(/^error e: Step "e" has next: "__parent__" which must be overridden/) as string,
    'error f: Step "f" has a parallel branch "x" which does not exist in steps.',
    'error f: Step "f" joins at "y" which does not exist in steps.',
  ]);
});

test('names with another meaning are refused', () => {
  const skill = skillOf(
    {
      self: { prompt: 'a', next: 'a/b' },
      'a/b': { prompt: 'b', next: 'topic:x' },
      'topic:x': { prompt: 'c', next: 'all' },
      all: { prompt: 'd', next: '' },
      '': { prompt: 'e', next: TERMINAL },
    },
    {
      stores: { steps: anything },
      entry: 'begin',
      subskills: { 'x/y': { definition: skillOf({ q: { prompt: 'q', next: TERMINAL } }) } },
    },
  );
  expect(messages(skill)).toEqual([
    'error : skill "sample": entry step "begin" not found in steps. There are: self, a/b, topic:x, all, .',
    'error : skill "sample": store name "steps" is reserved',
    'error : Sub-skill name "x/y" is empty or has a "/", which separates it from its steps.',
    'error self: Step name "self" is reserved.',
    'error a/b: Step name "a/b" has a "/", which separates a sub-skill\'s name from its step\'s.',
    'error topic:x: Step name "topic:x" reads like a redirect.',
    'warning all: Step "all" cannot be read as store.steps.all; use store.steps.all("all").',
    'error : A step has an empty name.',
  ]);
});

test('sub-skills are checked too, under their names', () => {
  const inner = skillOf({ a: { prompt: 'a', next: 'gone' } });
  expect(
    messages(skillOf({ a: { prompt: 'a', next: 'subskill:s' } }, { subskills: { s: { definition: inner } } })),
  ).toEqual(['error s/a: Step "a" has next "gone" which does not exist in steps.']);
});

test('keys that cannot be combined are refused', () => {
  const skill = skillOf({
    a: { prompt: 'a', wait: { durationMs: -1 }, next: 'b' },
    b: { next: 'c', human: {}, maxVisits: 0 },
    c: { prompt: 'c', human: { deadlineMs: 5 }, next: TERMINAL, maxInvalid: 1.5, retry: { maxAttempts: 0 } },
    d: { response: anything, next: [] },
    e: {
      action: () => 1,
      retry: { maxAttempts: 2, backoffFactor: -2, maxBackoffMs: Number.NaN },
      timeoutMs: Number.MAX_SAFE_INTEGER,
      next: TERMINAL,
    },
  });
  expect(messages(skill)).toEqual([
    'error a: Step "a" has wait, which no answer can reach; move the prompt into a step before it.',
    'error a: Step "a": wait.durationMs is -1; it must be milliseconds, from 0 to 3155760000000 (100 years).',
    'error b: Step "b" is for a person, but has no prompt for that person.',
    'error b: Step "b": maxVisits is 0; it must be a whole number from 1.',
    'error c: Step "c" has human.deadlineMs but no human.onExpiry. Set onExpiry to the step that follows when the deadline has passed.',
    'warning c: Step "c" has retry or timeoutMs but no action.',
    'error c: Step "c": maxInvalid is 1.5; it must be a whole number from 1.',
    'error c: Step "c": retry.maxAttempts is 0; it must be a whole number from 1.',
    'error d: Step "d": next is an empty list of branches.',
    'warning d: Step "d" has a response schema but no prompt: its response is {}, which must fit.',
    'error e: Step "e": retry.maxBackoffMs is NaN; it must be milliseconds, from 0 to 3155760000000 (100 years).',
    'error e: Step "e": retry.backoffFactor is -2; it must be a number above 0.',
    'error e: Step "e": timeoutMs is 9007199254740991; it must be milliseconds, from 0 to 3155760000000 (100 years).',
  ]);
});

test('defect: an object without `terminal: true` is not the end', () => {
  expect(messages(skillOf({ a: { prompt: 'a', next: { terminal: false } as never } }))).toEqual([
    'error a: Step "a": next is an object without `terminal: true`.',
  ]);
});

test('facts are JSON, and name the steps of a cycle: `self`, and all steps that a function may return', () => {
  const facts = factsOf(
    skillOf({
      a: { prompt: 'a', next: 'b' },
      b: { prompt: 'b', next: 'self' },
      c: { prompt: 'c', next: () => 'x', action: () => 1 },
      d: { prompt: 'd', next: 'c' },
      e: { prompt: 'e', next: TERMINAL },
    }),
  );
  expect(JSON.parse(JSON.stringify(facts))).toEqual(facts);
  expect(Object.entries(facts.steps).flatMap(([name, { inCycle }]) => (inCycle ? [name] : []))).toEqual([
    'b',
    'c',
    'd',
  ]);
});
