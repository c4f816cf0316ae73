/** For programs of this package that have no VM. */
export { mergeChain } from '../sandbox/checkpoints/merge-chain.ts';
