package drivers;

import jakarta.persistence.Column;
import jakarta.persistence.Entity;
import jakarta.persistence.Id;
import jakarta.persistence.Table;
import java.math.BigDecimal;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.OffsetDateTime;
import java.util.Arrays;
import java.util.List;
import java.util.UUID;

/** The tables as entities, whose fields have plain types. */
final class Entities {
    static final List<Class<?>> ALL = List.of(Person.class, Pet.class, Sample.class, Lists.class, Blob.class);

    private Entities() {
    }

    @Entity(name = "Person")
    @Table(name = "person")
    public static class Person {
        @Id
        Integer id;
        @Column(length = 80)
        String name;
        Integer age;
        BigDecimal paid;
        LocalDate born;
        String note;

        static Person of(List<Object> values) {
            Person made = named(values);
            made.age = (Integer) values.get(2);
            made.paid = (BigDecimal) values.get(3);
            made.born = (LocalDate) values.get(4);
            made.note = (String) values.get(5);
            return made;
        }

        static Person named(List<Object> values) {
            Person made = new Person();
            made.id = (Integer) values.get(0);
            made.name = (String) values.get(1);
            return made;
        }

        List<Object> row() {
            return Arrays.asList(id, name, age, paid, born, note);
        }
    }

    @Entity(name = "Pet")
    @Table(name = "pet")
    public static class Pet {
        @Id
        Integer id;
        String owner;
        String nick;
        Long big;

        static Pet of(List<Object> values) {
            Pet made = new Pet();
            made.id = (Integer) values.get(0);
            made.owner = (String) values.get(1);
            made.nick = (String) values.get(2);
            made.big = (Long) values.get(3);
            return made;
        }
    }

    @Entity(name = "Sample")
    @Table(name = "sample")
    public static class Sample {
        @Id
        Integer id;
        Integer i;
        Long l;
        BigDecimal n;
        Float f;
        Double g;
        String t;
        Boolean b;
        LocalDate d;
        LocalDateTime s;
        OffsetDateTime z;
        UUID u;
        byte[] y;

        static Sample of(List<Object> values) {
            Sample made = new Sample();
            made.id = (Integer) values.get(0);
            made.i = (Integer) values.get(1);
            made.l = (Long) values.get(2);
            made.n = (BigDecimal) values.get(3);
            made.f = (Float) values.get(4);
            made.g = (Double) values.get(5);
            made.t = (String) values.get(6);
            made.b = (Boolean) values.get(7);
            made.d = (LocalDate) values.get(8);
            made.s = (LocalDateTime) values.get(9);
            made.z = (OffsetDateTime) values.get(10);
            made.u = (UUID) values.get(11);
            made.y = (byte[]) values.get(12);
            return made;
        }
    }

    @Entity(name = "Lists")
    @Table(name = "lists")
    public static class Lists {
        @Id
        Integer id;
        String[] t;
        Integer[] i;

        static Lists of(List<Object> values) {
            Lists made = new Lists();
            made.id = (Integer) values.get(0);
            made.t = (String[]) values.get(1);
            made.i = (Integer[]) values.get(2);
            return made;
        }
    }

    @Entity(name = "Blob")
    @Table(name = "blob")
    public static class Blob {
        @Id
        Integer id;
        String t;
        byte[] y;

        static Blob of(List<Object> values) {
            Blob made = new Blob();
            made.id = (Integer) values.get(0);
            made.t = (String) values.get(1);
            made.y = (byte[]) values.get(2);
            return made;
        }
    }
}
