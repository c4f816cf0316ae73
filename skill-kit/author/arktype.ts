/** On its own, so that a bundler can leave ArkType out: its package does not say that it has no side effects, ours does. */
export { type } from 'arktype';
