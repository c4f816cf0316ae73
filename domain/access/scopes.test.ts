import { expect, test } from 'vitest';
import { hasScope, isScope, type Scope, SCOPES } from './scopes.ts';

const ALLOWED: Readonly<Record<Scope, readonly Scope[]>> = {
  read: ['read'],
  run: ['read', 'run'],
  approve: ['read', 'approve'],
  admin: ['read', 'run', 'approve', 'admin'],
};

test.each(SCOPES)('a token with the scope %s may do what the scope includes', (scope) => {
  expect(SCOPES.filter((wanted) => hasScope([scope], wanted))).toEqual(ALLOWED[scope]);
});

test('a token with two scopes may do what either includes', () => {
  expect(SCOPES.filter((wanted) => hasScope(['run', 'approve'], wanted))).toEqual(['read', 'run', 'approve']);
});

test('a token without a scope may do nothing', () => {
  expect(SCOPES.filter((wanted) => hasScope([], wanted))).toEqual([]);
});

test('other words are no scopes', () => {
  expect(['', 'READ', 'write', 'constructor'].filter(isScope)).toEqual([]);
});
