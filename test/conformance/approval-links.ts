/** The promises of every store of used links. A store's own test file calls these tests. */
import { randomBytes } from 'node:crypto';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import type { AccessStore } from '../../store/access.ts';
import type { ApprovalLinkStore, UsedLink } from '../../store/triggers.ts';

export interface ApprovalLinkSubject {
  readonly name: string;
  /** Opens an empty store. */
  open(): Promise<AccessStore>;
}

const NOW_MS = 1_795_996_352_123;
const LEASE_MS = 1_000;

export function testApprovalLinks({ name, open }: ApprovalLinkSubject): void {
  describe(`used links ${name}`, () => {
    let links: ApprovalLinkStore;
    let link: UsedLink;
    const claim = (token: string, nowMs = NOW_MS) => links.claim(link, { token, nowMs, leaseMs: LEASE_MS });

    beforeEach(async () => {
      const opened = await open();
      links = opened.triggers.approvalLinks;
      link = { hash: new Uint8Array(randomBytes(32)), expiresAtMs: NOW_MS + 60_000 };
      onTestFinished(() => opened.close());
    });

    test('one of many answers at once has the link', async () => {
      const claimed = await Promise.all(Array.from({ length: 8 }, (_, at) => claim(`t${at}`)));
      expect(claimed.filter(Boolean)).toHaveLength(1);
      expect(await links.isUsed(link.hash)).toBe(false);
    });

    test('a claim holds until the end of its lease, and its own token has it again', async () => {
      expect(await claim('one')).toBe(true);
      expect(await claim('one')).toBe(true);
      expect(await claim('two', NOW_MS + LEASE_MS - 1)).toBe(false);
      expect(await claim('two', NOW_MS + LEASE_MS)).toBe(true);
      expect(await claim('one', NOW_MS + LEASE_MS)).toBe(false);
    });

    test('a used link is never free again, also if its lease had ended before', async () => {
      await claim('one');
      await claim('two', NOW_MS + LEASE_MS);
      await links.use(link, NOW_MS + LEASE_MS);
      await links.release(link.hash, 'two');
      expect(await links.isUsed(link.hash)).toBe(true);
      expect(await claim('two', NOW_MS + 2 * LEASE_MS)).toBe(false);
      await links.use(link, NOW_MS);
      expect(await links.isUsed(link.hash)).toBe(true);
    });

    test('a released link is free at once, and only its claim releases it', async () => {
      await claim('one');
      await links.release(link.hash, 'two');
      expect(await claim('two')).toBe(false);
      await links.release(link.hash, 'one');
      expect(await claim('two')).toBe(true);
    });

    test('links differ in their hash', async () => {
      await links.use(link, NOW_MS);
      expect(await links.isUsed(new Uint8Array(randomBytes(32)))).toBe(false);
    });

    test('the row of a link is deleted at its end', async () => {
      await links.use(link, NOW_MS);
      await links.sweep(link.expiresAtMs - 1);
      expect(await links.isUsed(link.hash)).toBe(true);
      await links.sweep(link.expiresAtMs);
      expect(await links.isUsed(link.hash)).toBe(false);
    });
  });
}
