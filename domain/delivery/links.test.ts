import { expect, test } from 'vitest';
import { describeCircle, findCircle, type Link, listUpstreams } from './links.ts';

function link(text: string): readonly Link[] {
  return text.split(' ').map((each) => {
    const [deployment, upstream] = each.split('<') as [string, string];
    return { deployment, upstream };
  });
}

test.each<[string, string, readonly string[] | null]>([
  ['a deployment that follows itself', 'a<a', ['a', 'a']],
  ['two deployments that follow each other', 'a<b b<a', ['a', 'b', 'a']],
  ['a long circle', 'a<b b<c c<d d<a', ['a', 'b', 'c', 'd', 'a']],
  ['a circle after a fork', 'a<x a<b x<y b<c c<a', ['a', 'b', 'c', 'a']],
  ['a circle of others that the deployment follows', 'a<b b<c c<b', null],
  ['a diamond', 'a<b a<c b<d c<d', null],
  ['a chain', 'a<b b<c', null],
])('%s', (_what, text, circle) => {
  expect(findCircle(link(text), 'a')).toEqual(circle);
});

test('a text names a circle, and only the beginning of a long one', () => {
  expect(describeCircle(['a', 'b', 'a'])).toBe('a → b → a');
  const long = Array.from({ length: 40 }, (_value, index) => `d${index}`);
  expect(describeCircle([...long, 'd0'])).toBe(`${long.slice(0, 12).join(' → ')} → … → d0`);
});

test('the upstreams of triggers are named once', () => {
  const follow = (of: string) => ({ source: { kind: 'run', of, states: ['failed'] } }) as const;
  expect(listUpstreams([follow('b'), { source: { kind: 'api' } }, follow('a'), follow('b')])).toEqual(['a', 'b']);
});
