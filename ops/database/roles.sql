-- The database roles of Tombola. Run as superuser, in the database itself; again after a change of a password:
--
--   TOMBOLA_OWNER_PASSWORD=... TOMBOLA_PASSWORD=... psql -d tombola -v ON_ERROR_STOP=1 -f roles.sql
--
-- tombola_owner  creates and changes the tables: for DATABASE_URL of `tombola migrate` only.
-- tombola        reads and writes rows: for DATABASE_URL of Core and the workers. It cannot change tables, rewrite
--                the audit log, or read other databases' roles or files.

\getenv owner_password TOMBOLA_OWNER_PASSWORD
\getenv password TOMBOLA_PASSWORD

SELECT 'CREATE ROLE tombola_owner' WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'tombola_owner') \gexec
SELECT 'CREATE ROLE tombola' WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'tombola') \gexec
ALTER ROLE tombola_owner NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS LOGIN PASSWORD :'owner_password';
ALTER ROLE tombola NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS LOGIN PASSWORD :'password';

SELECT format('REVOKE ALL ON DATABASE %I FROM PUBLIC', current_database()) \gexec
SELECT format('GRANT CONNECT ON DATABASE %I TO tombola_owner, tombola', current_database()) \gexec
REVOKE ALL ON SCHEMA public FROM PUBLIC;
GRANT USAGE, CREATE ON SCHEMA public TO tombola_owner;
GRANT USAGE ON SCHEMA public TO tombola;

-- Existing tables, and default privileges for later ones.
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO tombola;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO tombola;
-- The audit log is append-only. (If it does not exist yet, the migration that creates it does the same.)
SELECT 'REVOKE UPDATE, DELETE, TRUNCATE ON audit_entries FROM tombola'
WHERE to_regclass('public.audit_entries') IS NOT NULL \gexec
ALTER DEFAULT PRIVILEGES FOR ROLE tombola_owner IN SCHEMA public GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO tombola;
ALTER DEFAULT PRIVILEGES FOR ROLE tombola_owner IN SCHEMA public GRANT USAGE ON SEQUENCES TO tombola;
