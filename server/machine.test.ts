import { expect, test } from 'vitest';
import type { ServerLink } from '../client/temporal/server-link.ts';
import { keepOwnLink, keepStackLink } from './machine.ts';

const linkTo = (address: string): ServerLink => ({ address: () => address }) as Partial<ServerLink> as ServerLink;

/** A stack whose looks take until `settle`. */
function createStack() {
  const looks: ((address: string | null) => void)[] = [];
  const opened: string[] = [];
  let last = '';
  const link = keepStackLink(
    async () => {
      const address = await new Promise<string | null>((resolve) => looks.push(resolve));
      last = address ?? last;
      return address === null ? null : { address };
    },
    async () => {
      opened.push(last);
      return linkTo(last);
    },
  );
  return { link, looks, opened };
}

test('requests at the same time share one look for the stack and one connection', async () => {
  const { link, looks, opened } = createStack();
  const asked = [link(), link(), link()];
  expect(looks).toHaveLength(1);
  looks[0]!('a:1');
  const links = await Promise.all(asked);
  expect(new Set(links).size).toBe(1);
  expect(opened).toEqual(['a:1']);
});

test('a later request looks again, and gets another connection only at another address', async () => {
  const { link, looks, opened } = createStack();
  for (const address of ['a:1', 'a:1', null, 'a:2']) {
    const asked = link();
    looks.at(-1)!(address);
    expect((await asked)?.address() ?? null).toBe(address);
  }
  expect(looks).toHaveLength(4);
  expect(opened).toEqual(['a:1', 'a:2']);
});

test('a look that fails fails for its requests only', async () => {
  let tries = 0;
  const link = keepStackLink(
    async () => {
      tries += 1;
      if (tries === 1) throw new Error('the socket does not answer');
      return { address: 'a:1' };
    },
    async () => linkTo('a:1'),
  );
  for (const result of await Promise.allSettled([link(), link()]))
    expect(result).toMatchObject({ status: 'rejected', reason: { message: 'the socket does not answer' } });
  expect((await link())?.address()).toBe('a:1');
});

test('requests share one connection to your own server, and a failed try is not kept', async () => {
  let tries = 0;
  const link = keepOwnLink(async () => {
    tries += 1;
    if (tries === 1) throw new Error('the server is away');
    return linkTo('own:7233');
  });
  const failed = await Promise.allSettled([link(), link()]);
  expect(failed.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
  expect(tries).toBe(1);
  const links = await Promise.all([link(), link()]);
  expect([links[0]?.address(), links[0] === links[1], await link()]).toEqual(['own:7233', true, links[0]]);
  expect(tries).toBe(2);
});
