/** `voidbox/skill-kit` in plain Node: what authors of step machines import. */
export * from './exports.ts';
export { type, z } from './author/schema-libraries.ts';
