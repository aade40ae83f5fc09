package drivers;

import drivers.Entities.Person;
import drivers.Main.Result;
import drivers.Main.Step;
import jakarta.persistence.LockModeType;
import java.sql.Savepoint;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import org.hibernate.Session;
import org.hibernate.SessionFactory;
import org.hibernate.cfg.Configuration;
import org.hibernate.query.Query;

/** Hibernate on pgjdbc: entities, and its query language. Outside of a transaction of the scenario's each step is one. */
final class WithHibernate implements Main.Driver {
    private static final Map<String, Function<List<Object>, Object>> ADDED = Map.of("insert/one", Person::of, "insert/returning", Person::of,
        "insert/many", Person::of, "insert/pets", Entities.Pet::of, "nulls/insert", Person::of, "types/insert", Entities.Sample::of,
        "types/insert lists", Entities.Lists::of, "large/insert", Entities.Blob::of);

    private final SessionFactory factory;
    private final Deque<Savepoint> savepoints = new ArrayDeque<>();
    private Session outer;

    WithHibernate(String url) {
        Configuration configuration = new Configuration();
        Entities.ALL.forEach(configuration::addAnnotatedClass);
        configuration.setProperty("hibernate.connection.url", url);
        configuration.setProperty("hibernate.jdbc.batch_size", "20");
        configuration.setProperty("hibernate.connection.pool_size", "1");
        factory = configuration.buildSessionFactory();
    }

    @Override
    public void close() {
        factory.close();
    }

    @Override
    public boolean isAbsent(Step step) {
        return step.name().equals("prepared/with it");
    }

    @Override
    public Result run(Step step, List<Object> values, List<List<Object>> batch) {
        switch (step.text("do")) {
            case "begin" -> {
                outer = factory.openSession();
                outer.beginTransaction();
            }
            case "commit", "rollback" -> end(step.text("do").equals("commit"));
            case "savepoint" -> outer.doWork(connection -> savepoints.push(connection.setSavepoint()));
            case "release" -> outer.doWork(connection -> connection.releaseSavepoint(savepoints.pop()));
            case "back" -> {
                outer.doWork(connection -> connection.rollback(savepoints.pop()));
                outer.clear();
            }
            default -> {
                return outer != null ? within(outer, step, values, batch)
                    : factory.fromTransaction(session -> within(session, step, values, batch));
            }
        }
        return Result.of(0);
    }

    private void end(boolean commits) {
        Session ended = outer;
        outer = null;
        if (commits) {
            ended.getTransaction().commit();
        } else {
            ended.getTransaction().rollback();
        }
        ended.close();
    }

    private Result within(Session session, Step step, List<Object> values, List<List<Object>> batch) {
        String name = step.name();
        if (ADDED.containsKey(name)) {
            return added(session, ADDED.get(name), batch.isEmpty() ? List.of(values) : batch, step.givesRows());
        }
        if (name.equals("insert/rows")) {
            return added(session, Person::of, List.of(values.subList(0, 6), values.subList(6, 12)), false);
        }
        if (name.startsWith("errors/unique") || step.scenario().equals("transactions") && values.size() == 2) {
            return added(session, Person::named, List.of(values), false);
        }
        if (step.scenario().equals("tables") || List.of("new column", "set", "reset").contains(step.text("name"))) {
            session.doWork(connection -> connection.createStatement().execute(step.text("sql")));
            return Result.of(0);
        }
        return switch (name) {
            case "ranges/too large", "errors/no such column" -> byHand(session, step, values);
            case "change/put back" -> changed(session, values);
            case "change/locked" -> locked(session, values);
            default -> stated(session, step, batch.isEmpty() ? List.of(values) : batch);
        };
    }

    private static Result added(Session session, Function<List<Object>, Object> make, List<List<Object>> batch, boolean gives) {
        batch.forEach(values -> session.persist(make.apply(values)));
        session.flush();
        if (!gives) {
            return Result.of(batch.size());
        }
        List<Object> values = batch.get(0);
        return Result.of(List.of(List.of(values.get(0), values.get(1), values.get(3))));
    }

    private static Result byHand(Session session, Step step, List<Object> values) {
        Query<?> query = session.createNativeQuery(step.text("sql").replaceAll("\\$(\\d)", "?$1"));
        for (int at = 0; at < values.size(); at++) {
            query.setParameter(at + 1, values.get(at));
        }
        return step.givesRows() ? Result.of(List.of(List.of(query.list()))) : Result.of(query.executeUpdate());
    }

    /** Hibernate finds what has changed. */
    private static Result changed(Session session, List<Object> values) {
        Person ada = session.find(Person.class, values.get(2));
        ada.name = (String) values.get(0);
        ada.age = (Integer) values.get(1);
        session.flush();
        return Result.of(1);
    }

    private static Result locked(Session session, List<Object> values) {
        Query<Person> query = session.createQuery("from Person p where p.name = ?1", Person.class);
        Person found = query.setParameter(1, values.get(0)).setLockMode(LockModeType.PESSIMISTIC_WRITE).getSingleResult();
        return Result.of(List.of(found.row().subList(0, 2)));
    }

    /** The statements of a step, for each row of values. */
    private static Result stated(Session session, Step step, List<List<Object>> batch) {
        List<List<Object>> rows = new ArrayList<>();
        long count = 0;
        for (List<Object> values : batch) {
            for (String statement : Statements.of(step).split("; ")) {
                boolean reads = statement.startsWith("select");
                Query<?> query = reads ? session.createQuery(statement, Object[].class)
                    : (Query<?>) session.createMutationQuery(statement);
                bind(query, statement, values);
                if (step.name().equals("cancelled/cancel")) {
                    query.setTimeout(1);
                }
                if (reads) {
                    query.setFetchSize(2).list().forEach(row -> rows.add(Arrays.asList((Object[]) row)));
                } else {
                    count += query.executeUpdate();
                }
            }
        }
        return new Result(rows, List.of(), count);
    }

    private static void bind(Query<?> query, String statement, List<Object> values) {
        for (int at = 0; at < values.size(); at++) {
            Object value = values.get(at);
            String name = "p" + (at + 1);
            if (!statement.contains(":" + name)) {
                continue;
            }
            if (value instanceof Object[] items) {
                query.setParameterList(name, items);
            } else {
                query.setParameter(name, value);
            }
        }
    }
}
