/**
 * `voidbox/skill-kit` for bundlers, and its types for everybody: `z` and `type` are the libraries' own, with their types and
 * namespaces.
 */
export * from './exports.ts';
export { type } from './author/arktype.ts';
export { z } from 'zod';
